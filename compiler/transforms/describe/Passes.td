// Passes that replace accesses through pointers by accesses through descriptors.
#ifndef KILN_DESCRIBE_PASSES_TD
#define KILN_DESCRIBE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DescribePointersPass : Pass<"kiln-describe-pointers", "::mlir::func::FuncOp"> {
  let summary = "turn pointer loads and stores that walk a box into descriptor accesses";
  let description = [{
    In a kernel that multiplies in a loop, a matrix load or store whose pointers provably walk a box of an array
    argument is rewritten to go through a descriptor of that array. So products of kernels written with pointers and
    masks get the schedules that copy engines feed.

    ```mlir
    %i, %k  start and index of rows and columns;  %rows, %columns  the same as tiles
    %o = %rows * %stride + %columns;  %mask = %rows < %m and %columns < %n
    %p = tile.addptr %a, %o
    %x = tile.load %p mask %mask other 0
    ```
    becomes
    ```mlir
    %d = tile.make_desc %a, shape [%m, %n] strides [%stride, 1]
    %x = tile.desc_load %d[%i, %k]
    ```
    Requirements on an access; a remark names the one that does not hold:
    - the base is an argument and a multiple of 16 bytes; an offset common to all elements is the position of the box,
      or selects a matrix of a batch, whose stride is a multiple of 16 bytes too;
    - one dimension has stride 1, the other a constant or an argument that is a multiple of 16 bytes;
    - the mask is the box's bounds (indices less than a constant or an argument, and possibly at least 0), in one
      dimension, both or none. Without a mask the array is as large as boxes may reach: the elements read are those that
      the pointers read;
    - elements that are not loaded are zero. Indices may be folded back past the bounds (`% m`) if such rows are masked
      off wherever they are stored and are used for nothing else;
    - no sum or product on the way to an address or a comparison may wrap; positions are below 2^31, and negative
      only where the mask excludes the elements before the array.

    Either all operands of products are loaded this way, or nothing is changed.

    Needs: stage opt, a target with a copy engine, a launch that asked for it (module attribute
    `kgpu.describe_pointers`), and not for the schedule `lanes`, which needs pointers. The attribute promises that
    integer arguments are from 0 to 2^30 and that the grid has at most 2^19 programs along each axis, which the launch
    checks. Guarantees: the same values are stored, and no memory is read that was not read before.
  }];
  let options = [Option<"all", "all", "bool", "false", "kernels whose launch has not asked for it as well">];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def RequireDivisorsPass : Pass<"kiln-require-divisors", "::mlir::func::FuncOp"> {
  let summary = "have the launch check that divisors are positive, where it can compute them";
  let description = [{
    Programs that visit tiles in groups divide by the height of a group, which is positive unless the grid is larger
    than it should be. The launch can check that: where a divisor is computed from arguments and program indices alone,
    and is monotonic in each index, its minimum is at the first or the last program along each axis.

    ```mlir
    %height = arith.minsi %left, %c8       // %left = ceil(m / 128) - program / (8 * ceil(n / 128)) * 8
    %column = arith.divsi %place, %height
    ```
    becomes
    ```mlir
    func.func @kernel(...) attributes {kgpu.positive = ["$0 127 + 128 / last0 $1 127 + 128 / 8 * / 8 * - 8 min"]}
    %height = arith.minsi %left, %c8
    %good = arith.cmpi sgt, %height, %c0
    tile.assume %good
    %column = arith.divsi %place, %height
    ```
    The text is in postfix notation. `$0` is the first parameter, `last0` the index of the last program along axis 0,
    `programs0` their count.

    Needs: stage opt, a launch that checks its counts (module attribute `kgpu.describe_pointers`), so that nothing on
    the way to a divisor wraps. Guarantees: the code is equivalent for launches where each number of the attribute is
    positive; other launches must not run it, and run code without descriptors.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // KILN_DESCRIBE_PASSES_TD
