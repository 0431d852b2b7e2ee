// NumPy arrays, alone (.npy) and in an archive (.npz). Bad input is a table: bytes, expected id.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/ir/npz.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/byte_text.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::Bytes;
using test::error_id;
using test::little_endian;
using test::repeat;
using test::to_bytes;

Bytes npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(version);
  text += '\0';
  text += little_endian(dictionary.size(), version == 1 ? 2 : 4);
  text += dictionary;
  text += data;
  return to_bytes(text);
}

TEST(Npy, ReadsEveryDtype) {
  struct Case {
    std::string_view descr;
    std::string data;
    DType dtype;
    double first;
    double second;
  };
  const Case cases[] = {
      {"<f4", std::string("\0\0\x80\x3f\0\0\0\xc0", 8), DType::kFloat32, 1, -2},
      {"<f8", std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0", 16), DType::kFloat64, 1, -2},
      {"|i1", "\x01\xfe", DType::kInt8, 1, -2},
      {"|u1", "\x01\xfe", DType::kUint8, 1, 254},
      {"<i2", std::string("\x01\0\xfe\xff", 4), DType::kInt16, 1, -2},
      {"<i4", std::string("\x01\0\0\0\xfe\xff\xff\xff", 8), DType::kInt32, 1, -2},
      {"<i8", std::string("\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 16), DType::kInt64,
       1, -2},
      {"|b1", std::string("\x01\0", 2), DType::kBool, 1, 0},
      {"<f2", std::string("\0\x3c\0\xc0", 4), DType::kFloat32, 1, -2},
      {"<f2", std::string("\x01\0\0\x7c", 4), DType::kFloat32, 0x1p-24, INFINITY},
  };
  const auto element = [](const Tensor& tensor, size_t i) -> double {
    switch (tensor.dtype()) {
      case DType::kFloat32:
        return tensor.values<float>()[i];
      case DType::kFloat64:
        return tensor.values<double>()[i];
      case DType::kInt8:
        return tensor.values<int8_t>()[i];
      case DType::kInt16:
        return tensor.values<int16_t>()[i];
      case DType::kInt32:
        return tensor.values<int32_t>()[i];
      case DType::kInt64:
        return static_cast<double>(tensor.values<int64_t>()[i]);
      default:
        return tensor.values<uint8_t>()[i];
    }
  };
  for (const Case& c : cases)
    for (const int version : {1, 2}) {
      const auto tensor = parse_npy(
          npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}  \n",
                          c.descr),
              c.data, version),
          {});
      ASSERT_TRUE(tensor.has_value()) << c.descr << test::error_text(tensor);
      EXPECT_EQ(tensor->dtype(), c.dtype) << c.descr;
      EXPECT_EQ(tensor->shape(), Shape{2}) << c.descr;
      EXPECT_EQ(element(*tensor, 0), c.first) << c.descr;
      EXPECT_EQ(element(*tensor, 1), c.second) << c.descr;
    }
}

TEST(Npy, TurnsFortranOrder) {
  // Logical 2×3×1 array 0…5, first dimension fastest in the file.
  const auto tensor = parse_npy(npy("{'shape': (2, 3, 1), 'fortran_order': True, 'descr': '|u1'}",
                                    std::string("\0\x03\x01\x04\x02\x05", 6)),
                                {});
  ASSERT_TRUE(tensor.has_value()) << test::error_text(tensor);
  for (uint8_t i = 0; i < 6; ++i) EXPECT_EQ(tensor->values<uint8_t>()[i], i);
}

// Two numbers an element, in a last dimension: logical 2×2 array of (0, -1), (2, -3), ….
TEST(Npy, ReadsComplexNumbersAsPairs) {
  const std::vector<float> rows{0, -1, 2, -3, 4, -5, 6, -7}, columns{0, -1, 4, -5, 2, -3, 6, -7};
  const auto text = [](const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  };
  for (const auto& [order, data] : {std::pair{"False", text(rows)}, {"True", text(columns)}}) {
    const auto tensor = parse_npy(
        npy(fmt::format("{{'descr': '<c8', 'fortran_order': {}, 'shape': (2, 2), }}", order), data),
        {});
    ASSERT_TRUE(tensor.has_value()) << test::error_text(tensor);
    EXPECT_EQ(tensor->dtype(), DType::kFloat32);
    EXPECT_EQ(tensor->shape(), (Shape{2, 2, 2}));
    EXPECT_TRUE(std::ranges::equal(tensor->values<float>(), rows)) << order;
  }
  const double pair[] = {0.5, -0.25};
  const auto wide = parse_npy(npy("{'descr': '<c16', 'fortran_order': False, 'shape': (), }",
                                  std::string(reinterpret_cast<const char*>(pair), sizeof pair)),
                              {});
  ASSERT_TRUE(wide.has_value()) << test::error_text(wide);
  EXPECT_EQ(wide->dtype(), DType::kFloat64);
  EXPECT_TRUE(std::ranges::equal(wide->values<double>(), pair));
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  const auto scalar =
      parse_npy(npy("{'descr': '|i1', 'fortran_order': False, 'shape': ()}", "\x07"), {});
  ASSERT_TRUE(scalar.has_value());
  EXPECT_EQ(scalar->values<int8_t>()[0], 7);
  const auto empty =
      parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2)}", ""), {});
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->elements(), 0);
}

TEST(Npy, RefusesBadArrays) {
  const std::string_view good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const std::string one(4, '\0');
  struct Case {
    Bytes bytes;
    std::string_view id;
  };
  const Case cases[] = {
      {to_bytes("no array"), "npy-invalid"},
      {npy(good, ""), "npy-invalid"},
      {npy(good, one + "x"), "npy-invalid"},
      {npy(good, one, 9), "npy-invalid"},
      {npy(good, one, 0), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} junk", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", ""),
       "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""),
       "npy-invalid"},
      {npy(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}",
                       repeat("1, ", 40)),
           one),
       "npy-invalid"},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\x02"), "npy-invalid"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", one), "npy-unsupported"},
      {npy("{'descr': '<c32', 'fortran_order': False, 'shape': (1,)}", one + one),
       "npy-unsupported"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", one + one), "npy-unsupported"},
      {npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", one + one + one),
       "npy-unsupported"},
  };
  for (const Case& bad : cases) {
    const auto tensor = parse_npy(bad.bytes, {.file = "bad.npy"});
    EXPECT_EQ(error_id(tensor), bad.id)
        << std::string_view(reinterpret_cast<const char*>(bad.bytes.data()), bad.bytes.size());
    if (!tensor) {
      EXPECT_EQ(tensor.error().place.file, "bad.npy");
    }
  }
}

std::vector<NamedTensor> example_tensors() {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"zeta", Tensor(DType::kFloat32, {2, 3})});
  for (size_t i = 0; i < 6; ++i)
    tensors[0].tensor.values<float>()[i] = static_cast<float>(i) * 0.5F;
  tensors.push_back({"alpha", Tensor(DType::kInt64, {3})});
  tensors.push_back({"scalar", Tensor(DType::kInt8, {})});
  return tensors;
}

TEST(Npz, WritesAndReadsBack) {
  const test::TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = example_tensors();
  for (const bool compress : {false, true}) {
    ASSERT_TRUE(write_npz(folder / "a.npz", tensors, compress).has_value());
    for (const auto& read : {read_npz(folder / "a.npz"), read_tensors(folder / "a.npz")}) {
      ASSERT_TRUE(read.has_value()) << test::error_text(read);
      ASSERT_EQ(read->size(), tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& a = tensors[i].tensor;
        const Tensor& b = (*read)[i].tensor;
        EXPECT_EQ((*read)[i].name, tensors[i].name);
        EXPECT_EQ(a.dtype(), b.dtype());
        EXPECT_EQ(a.shape(), b.shape());
        EXPECT_EQ(std::memcmp(a.view().data, b.view().data, a.view().bytes()), 0);
      }
    }
  }
  ASSERT_TRUE(write_npy(folder / "b.npy", tensors[0].tensor.view()).has_value());
  const auto array = read_npy(folder / "b.npy");
  ASSERT_TRUE(array.has_value());
  EXPECT_EQ(array->name, "b");
  EXPECT_EQ(array->tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(read_tensors(folder / "b.npy")->front().name, "b");
  EXPECT_EQ(folder.size(), 2U);  // no temporary file stays
}

// Forty arrays that deflate to nothing are small to carry and large to hold: what nobody wants is
// not inflated, the rest has a limit.
TEST(Npz, InflatesWhatIsWantedWithinTheTotal) {
  ZipWriter writer;
  for (int i = 0; i < 40; ++i)
    writer.add(fmt::format("a{}.npy", i), format_npy(Tensor(DType::kFloat32, {10000}).view()),
               true);
  const Bytes bytes = writer.finish();
  const ZipLimits limits{.all_inflated_bytes = 100000};
  const auto all = parse_npz(bytes, "cal.npz", limits);
  ASSERT_EQ(error_id(all), "zip-too-large");
  EXPECT_EQ(all.error().place, (Place{.file = "cal.npz", .node = "a2.npy"}));
  const auto two = parse_npz(bytes, "cal.npz", limits,
                             [](std::string_view name) { return name == "a7" || name == "a30"; });
  ASSERT_TRUE(two) << test::error_text(two);
  ASSERT_EQ(two->size(), 40U);
  for (const NamedTensor& array : *two)
    EXPECT_EQ(array.tensor.view().data != nullptr, array.name == "a7" || array.name == "a30");
}

TEST(Npz, HeaderIsWhatNumpyWrites) {
  const Tensor tensor(DType::kFloat32, {3});
  const Bytes bytes = format_npy(tensor.view());
  EXPECT_EQ(bytes.size(), 128U + 12U);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   ");
  EXPECT_EQ(text[127], '\n');
}

TEST(Npz, NamesTheBadArray) {
  ZipWriter writer;
  writer.add("x.npy", format_npy(Tensor(DType::kFloat32, {3}).view()));
  writer.add("y.npy", to_bytes("junk"));
  const auto read = parse_npz(writer.finish(), "cal.npz");
  ASSERT_EQ(error_id(read), "npy-invalid");
  EXPECT_EQ(read.error().place, (Place{.file = "cal.npz", .node = "y"}));
  EXPECT_EQ(error_id(read_npz("/nowhere/cal.npz")), "file-not-found");
}

TEST(Npz, RandomDamageNeverCrashes) {
  const Bytes good = test::read_bytes(test::source_path("models/digits_cnn/calibration.npz"));
  std::mt19937 random(1);
  size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    Bytes bad = good;
    for (int k = 0; k < 3; ++k)
      bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    refused += parse_npz(bad, "bad.npz").has_value() ? 0 : 1;
  }
  EXPECT_GT(refused, 490U);
}

TEST(Npz, FindsNonFinite) {
  Tensor tensor(DType::kFloat32, {2, 2});
  EXPECT_EQ(find_non_finite(tensor.view()), -1);
  tensor.values<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_non_finite(tensor.view()), 2);
  tensor.values<float>()[1] = -INFINITY;
  EXPECT_EQ(find_non_finite(tensor.view()), 1);
  Tensor wide(DType::kFloat64, {2});
  wide.values<double>()[1] = INFINITY;
  EXPECT_EQ(find_non_finite(wide.view()), 1);
  EXPECT_EQ(find_non_finite(Tensor(DType::kInt32, {2}).view()), -1);
}

}  // namespace
}  // namespace dtr
