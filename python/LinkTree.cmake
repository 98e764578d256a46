# Links every entry of python/kiln (and kernels/ as kiln/kernels) into the build tree, so that nothing is written to the
# source tree and an edited .py needs no build.
file(MAKE_DIRECTORY "${TREE}")
file(GLOB entries "${SOURCE}/python/kiln/*")
foreach(entry IN LISTS entries)
  get_filename_component(name "${entry}" NAME)
  if(NOT name STREQUAL "__pycache__")
    file(CREATE_LINK "${entry}" "${TREE}/${name}" SYMBOLIC)
  endif()
endforeach()
file(CREATE_LINK "${SOURCE}/kernels" "${TREE}/kernels" SYMBOLIC)
