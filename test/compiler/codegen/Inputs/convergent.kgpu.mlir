// Inline assembly that threads execute together: O3 would duplicate it if it took it for arithmetic with a side effect.
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @together(%p: !tile.ptr<i32>, %x: i32, %c: i1) attributes {tile.kernel} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    // A condition that O3 could evaluate once more before the loop.
    %r = scf.while (%i = %x) : (i32) -> i32 {
      %y = tile.inline_asm "barrier.sync 7; mov.u32 $0, $1;" "=r,r" (%i) : (i32) -> i32
      %more = arith.cmpi sgt, %y, %zero : i32
      scf.condition(%more) %y : i32
    } do {
    ^bb0(%j: i32):
      tile.store %p, %j : !tile.ptr<i32>, i32
      %next = arith.shrsi %j, %x : i32
      scf.yield %next : i32
    }
    // A loop that O3 could split in two, one for each side of a branch in it.
    scf.for %i = %zero to %x step %one : i32 {
      %y = tile.inline_asm "barrier.sync 8; mov.u32 $0, $1;" "=r,r" (%i) : (i32) -> i32
      scf.if %c {
        tile.store %p, %y : !tile.ptr<i32>, i32
      }
    }
    // Assembly whose result only one branch uses.
    %y = tile.inline_asm "shfl.sync.bfly.b32 $0, $1, 9, 31, -1;" "=r,r" (%r) {isPure} : (i32) -> i32
    scf.if %c {
      tile.store %p, %y : !tile.ptr<i32>, i32
    }
    return
  }
}
