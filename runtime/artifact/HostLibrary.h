// The functions of CUDA's device library that compiled CPU code calls by name, since no short expression computes them.
// The compiler takes its list from here; runtime/device/HostLibrary.cpp defines them for the loader.
#pragma once

namespace kiln::artifact {

/// A function by its name in libdevice. `signature` is its result followed by its operands: f and d are fp32 and fp64,
/// i and l integers of 32 and 64 bits.
struct HostFunction {
  const char *symbol, *signature;
};

#define KILN_UNARY(NAME) {"__nv_" NAME "f", "ff"}, {"__nv_" NAME, "dd"}
#define KILN_BINARY(NAME) {"__nv_" NAME "f", "fff"}, {"__nv_" NAME, "ddd"}
#define KILN_EACH_WAY(NAME, SIGNATURE)                                                                                 \
  {"__nv_" NAME "_rd", SIGNATURE}, {"__nv_" NAME "_rn", SIGNATURE}, {"__nv_" NAME "_ru", SIGNATURE}, {                 \
    "__nv_" NAME "_rz", SIGNATURE                                                                                      \
  }

inline constexpr HostFunction hostFunctions[] = {
    KILN_UNARY("cospi"),
    KILN_UNARY("cyl_bessel_i0"),
    KILN_UNARY("cyl_bessel_i1"),
    KILN_UNARY("erfcinv"),
    KILN_UNARY("erfcx"),
    KILN_UNARY("erfinv"),
    KILN_UNARY("j0"),
    KILN_UNARY("j1"),
    KILN_UNARY("lgamma"),
    KILN_UNARY("logb"),
    KILN_UNARY("normcdf"),
    KILN_UNARY("normcdfinv"),
    KILN_UNARY("sinpi"),
    KILN_UNARY("tgamma"),
    KILN_UNARY("y0"),
    KILN_UNARY("y1"),
    KILN_BINARY("nextafter"),
    KILN_BINARY("remainder"),
    KILN_BINARY("rhypot"),
    {"__nv_norm3df", "ffff"},
    {"__nv_norm3d", "dddd"},
    {"__nv_rnorm3df", "ffff"},
    {"__nv_rnorm3d", "dddd"},
    {"__nv_norm4df", "fffff"},
    {"__nv_norm4d", "ddddd"},
    {"__nv_rnorm4df", "fffff"},
    {"__nv_rnorm4d", "ddddd"},
    {"__nv_jnf", "fif"},
    {"__nv_jn", "did"},
    {"__nv_ynf", "fif"},
    {"__nv_yn", "did"},
    {"__nv_ilogbf", "if"},
    {"__nv_ilogb", "id"},
    {"__nv_rcp64h", "dd"},
    KILN_EACH_WAY("fadd", "fff"),
    KILN_EACH_WAY("dadd", "ddd"),
    KILN_EACH_WAY("fsub", "fff"),
    KILN_EACH_WAY("dsub", "ddd"),
    KILN_EACH_WAY("fmul", "fff"),
    KILN_EACH_WAY("dmul", "ddd"),
    KILN_EACH_WAY("fdiv", "fff"),
    KILN_EACH_WAY("ddiv", "ddd"),
    KILN_EACH_WAY("fmaf", "ffff"),
    KILN_EACH_WAY("fma", "dddd"),
    KILN_EACH_WAY("frcp", "ff"),
    KILN_EACH_WAY("drcp", "dd"),
    KILN_EACH_WAY("fsqrt", "ff"),
    KILN_EACH_WAY("dsqrt", "dd"),
    KILN_EACH_WAY("double2float", "fd"),
    KILN_EACH_WAY("int2float", "fi"),
    KILN_EACH_WAY("uint2float", "fi"),
    KILN_EACH_WAY("ll2float", "fl"),
    KILN_EACH_WAY("ull2float", "fl"),
    KILN_EACH_WAY("ll2double", "dl"),
    KILN_EACH_WAY("ull2double", "dl"),
};

#undef KILN_UNARY
#undef KILN_BINARY
#undef KILN_EACH_WAY

} // namespace kiln::artifact
