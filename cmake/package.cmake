# Debian packages (`make package`): `deuteron` has the commands and the device's code for
# find_package(deuteron); `deuteron-mpi` has the command for clusters and alone depends on MPI.
include(GNUInstallDirs)
install(TARGETS deuteron deuteron-opt deuteron-executor-runner COMPONENT deuteron)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT deuteron)
if(DTR_MPI)
  install(TARGETS deuteron-mpi COMPONENT mpi)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}-mpi RENAME copyright COMPONENT mpi)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Deuteron developers")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEUTERON_PACKAGE_NAME deuteron)
set(CPACK_DEBIAN_DEUTERON_DESCRIPTION "${PROJECT_DESCRIPTION}
The commands, and the code that runs programs on the microcontroller.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME deuteron-mpi)
set(CPACK_DEBIAN_MPI_DESCRIPTION "Deuteron on clusters
Evaluations and searches run on all ranks of an MPI job.")
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS openmpi-bin)  # mpirun; the library is found in the command
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS deuteron)
include(CPack)
cpack_add_component(deuteron GROUP deuteron)
cpack_add_component(device GROUP deuteron)
cpack_add_component(mpi GROUP mpi)
