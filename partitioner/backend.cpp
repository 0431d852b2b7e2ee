#include "partitioner/backend.h"

namespace dtr {

Result<std::unique_ptr<LoweredPartition>> Backend::lower(Program&, Graph) const {
  DTR_CHECK(false);  // called for a backend without a delegate
}

}  // namespace dtr
