# Kernel scale of kernels.py. Made by `kiln export`: do not edit.
add_library(scale STATIC
  ${CMAKE_CURRENT_LIST_DIR}/scale.cpp
  ${CMAKE_CURRENT_LIST_DIR}/scale_code.cpp
  ${CMAKE_CURRENT_LIST_DIR}/scale.1.cpu-avx2.o
  ${CMAKE_CURRENT_LIST_DIR}/scale.2.cpu-sse.o
  ${CMAKE_CURRENT_LIST_DIR}/scale.4.cpu-avx2.o
  ${CMAKE_CURRENT_LIST_DIR}/scale.5.cpu-sse.o
  ${CMAKE_CURRENT_LIST_DIR}/scale.7.cpu-avx2.o
  ${CMAKE_CURRENT_LIST_DIR}/scale.8.cpu-sse.o)
target_include_directories(scale PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(scale PUBLIC kiln::runtime)
target_compile_features(scale PUBLIC cxx_std_17)
set_target_properties(scale PROPERTIES POSITION_INDEPENDENT_CODE ON)
