// Passes that turn loads and stores through pointers into those through descriptors.
#ifndef KILN_DESCRIBE_PASSES_TD
#define KILN_DESCRIBE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DescribePointersPass : Pass<"kiln-describe-pointers", "::mlir::func::FuncOp"> {
  let summary = "loads and stores through pointers that walk a box go through a descriptor";
  let description = [{
    In a kernel that multiplies in a loop, a load or store of a matrix whose pointers provably walk a box of an array of
    the kernel's arguments becomes one through a descriptor of that array. So products of kernels that are written with
    pointers and masks get the schedules that copy engines feed.

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
    What is asked of an access, each condition the reason in a remark where it does not hold:
    - the base is an argument and a multiple of 16 bytes; what is added in all elements alike is the position of the box,
      or a matrix of a batch, whose stride is;
    - one dimension has stride 1, the other a constant or an argument that is a multiple of 16 bytes;
    - the mask is the box's bounds (indices less than a constant or an argument), in one dimension, both or none. Where
      there is none the array is as large as boxes may reach: what is read is what the pointers read;
    - elements that are not loaded are zero. Indices may be folded back behind the bounds (`% m`) where such rows are
      masked off wherever they are stored, and nothing else comes of them;
    - no sum or product on the way to an address or a comparison may wrap, and positions are from 0 to 2^31.

    Either all factors of products are loaded so, or nothing is changed.

    Needs: stage opt, a target with a copy engine, a launch that has asked for it (module attribute
    `kgpu.describe_pointers`). That promises that integer arguments are from 0 to 2^30 and that the grid has at most 2^19
    programs along each axis, which a launch looks at. Guarantees: the same values are stored, and no memory is read that
    was not read before.
  }];
  let options = [Option<"all", "all", "bool", "false", "kernels whose launch has not asked for it as well">];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def RequireDivisorsPass : Pass<"kiln-require-divisors", "::mlir::func::FuncOp"> {
  let summary = "what programs divide by is positive, where the launch can be asked whether it is";
  let description = [{
    Programs that go over tiles in groups divide by the height of a group, which is positive unless the grid is larger
    than it should be. Whether it is, the launch can say: where a divisor is computed of arguments and of the program's
    indices alone, and falls or rises with each index, it is least in the first or in the last program along each axis.

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
    The text has operands in front of operators. `$0` is the first parameter, `last0` the index of the last program along
    axis 0, `programs0` their count.

    Needs: stage opt, a launch that looks at its counts (module attribute `kgpu.describe_pointers`), so that nothing on the
    way to a divisor wraps. Guarantees: the code is the same for launches where each number of the attribute is positive;
    others are refused it, and run code without.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // KILN_DESCRIBE_PASSES_TD
