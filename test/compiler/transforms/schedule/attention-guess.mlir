// A guess in chained products: steps without a mask ask by a vote of each warp, and a warp that says no computes its
// scores once more, and what the branch needs of them. All other steps take the branch.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @guess
// CHECK: } @multiply
// The first step takes the branch.
// CHECK:   kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: math.exp2
// CHECK:   math.tanh
// Steps without a mask.
// CHECK:   scf.for
// CHECK:     kgpu.receive
// CHECK:     %[[KEYS:.*]] = kgpu.trans
// CHECK:     kgpu.warpgroup_mma
// CHECK:     kgpu.warpgroup_mma
// CHECK:     %[[S:.*]] = kgpu.mma_wait %{{.*}} pending 1
// CHECK-NOT: kgpu.release
// CHECK:     %[[SIN:.*]] = math.sin %[[S]]
// CHECK:     %[[GUESS:.*]] = math.exp2 %[[SIN]]
// CHECK-NOT: math.tanh
// CHECK:     %[[ANY:.*]] = kgpu.any
// CHECK:     %[[SUMS:.*]] = kgpu.mma_wait %{{.*}} pending 0
// Values are released, keys are not.
// CHECK:     kgpu.release
// CHECK-NOT: kgpu.release
// CHECK:     scf.if %[[ANY]] -> (tensor<128x64xf16>, tensor<128x64xf32>)
// CHECK:       %[[RIGHT:.*]] = kgpu.local_load
// CHECK:       %[[AGAIN:.*]] = kgpu.warp_mma %{{.*}}, %[[RIGHT]], %{{.*}}
// CHECK-NEXT:  %[[SIN2:.*]] = math.sin %[[AGAIN]]
// CHECK-NEXT:  %[[TANH:.*]] = math.tanh %[[SIN2]]
// CHECK-NEXT:  %[[SCALED:.*]] = arith.mulf %[[SUMS]], %[[SIN2]]
// CHECK-NEXT:  %[[ROUNDED:.*]] = arith.truncf %[[TANH]]
// CHECK-NEXT:  scf.yield %[[ROUNDED]], %[[SCALED]]
// CHECK:     } else {
// CHECK-NEXT:  %[[KEPT:.*]] = arith.truncf %[[GUESS]]
// CHECK-NEXT:  scf.yield %[[KEPT]], %[[SUMS]]
// CHECK:     kgpu.release
// CHECK:     scf.yield
// Steps with a mask take the branch.
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK-NOT: math.exp2
// CHECK-NOT: kgpu.any
// CHECK:     math.tanh
// CHECK-NOT: tile.unlikely
  func.func @guess(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %most = arith.constant dense<9.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %m = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %a = math.sin %m : tensor<128x64xf32>
      %g = math.exp2 %a : tensor<128x64xf32>
      %high = arith.cmpf ogt, %g, %most : tensor<128x64xf32>
      %any = tile.unlikely %high : tensor<128x64xi1>
      %w:2 = scf.if %any -> (tensor<128x64xf32>, tensor<128x64xf32>) {
        %r = math.tanh %a : tensor<128x64xf32>
        %scaled = arith.mulf %acc, %a : tensor<128x64xf32>
        scf.yield %r, %scaled : tensor<128x64xf32>, tensor<128x64xf32>
      } else {
        scf.yield %g, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      }
      %p = arith.truncf %w#0 : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %w#1 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// A maximum over rows takes other warps. All steps take the branch.
// CHECK-LABEL: func.func @across_rows
// CHECK: kgpu.warpgroup_mma
// CHECK-NOT: kgpu.any
// CHECK-NOT: math.exp2
// CHECK-NOT: tile.unlikely
// CHECK: return
  func.func @across_rows(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %most = arith.constant dense<9.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %m = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %a = math.sin %m : tensor<128x64xf32>
      %g = math.exp2 %a : tensor<128x64xf32>
      %high = arith.cmpf ogt, %g, %most : tensor<128x64xf32>
      %any = tile.unlikely %high : tensor<128x64xi1>
      %w:2 = scf.if %any -> (tensor<128x64xf32>, tensor<128x64xf32>) {
        %c = tile.reduce(%a) axis 0 {
        ^bb0(%l: f32, %r: f32):
          %both = arith.maximumf %l, %r : f32
          tile.yield %both : f32
        } : (tensor<128x64xf32>) -> tensor<64xf32>
        %row = tile.expand_dims %c 0 : tensor<64xf32> -> tensor<1x64xf32>
        %r = tile.broadcast %row : tensor<1x64xf32> -> tensor<128x64xf32>
        scf.yield %r, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      } else {
        scf.yield %g, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      }
      %p = arith.truncf %w#0 : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %w#1 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// Rows change places. All steps take the branch.
// CHECK-LABEL: func.func @turned
// CHECK: kgpu.warpgroup_mma
// CHECK-NOT: kgpu.any
// CHECK-NOT: math.exp2
// CHECK-NOT: tile.unlikely
// CHECK: return
  func.func @turned(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %most = arith.constant dense<9.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %m = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %a = math.sin %m : tensor<128x64xf32>
      %g = math.exp2 %a : tensor<128x64xf32>
      %high = arith.cmpf ogt, %g, %most : tensor<128x64xf32>
      %any = tile.unlikely %high : tensor<128x64xi1>
      %w:2 = scf.if %any -> (tensor<128x64xf32>, tensor<128x64xf32>) {
        %flat = tile.reshape %a : tensor<128x64xf32> -> tensor<64x128xf32>
        %r = tile.trans %flat [1, 0] : tensor<64x128xf32> -> tensor<128x64xf32>
        scf.yield %r, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      } else {
        scf.yield %g, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      }
      %p = arith.truncf %w#0 : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %w#1 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// Maxima of rows that become columns change warps.
// CHECK-LABEL: func.func @columns
// CHECK: kgpu.warpgroup_mma
// CHECK-NOT: kgpu.any
// CHECK-NOT: math.exp2
// CHECK-NOT: tile.unlikely
// CHECK: return
  func.func @columns(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %most = arith.constant dense<9.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %m = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %a = math.sin %m : tensor<128x64xf32>
      %g = math.exp2 %a : tensor<128x64xf32>
      %high = arith.cmpf ogt, %g, %most : tensor<128x64xf32>
      %any = tile.unlikely %high : tensor<128x64xi1>
      %w:2 = scf.if %any -> (tensor<128x64xf32>, tensor<128x64xf32>) {
        %best = tile.reduce(%a) axis 1 {
        ^bb0(%l: f32, %m2: f32):
          %both = arith.maximumf %l, %m2 : f32
          tile.yield %both : f32
        } : (tensor<128x64xf32>) -> tensor<128xf32>
        %flat = tile.expand_dims %best 0 : tensor<128xf32> -> tensor<1x128xf32>
        %wide = tile.broadcast %flat : tensor<1x128xf32> -> tensor<64x128xf32>
        %col = tile.reduce(%wide) axis 1 {
        ^bb0(%l: f32, %m2: f32):
          %both = arith.addf %l, %m2 : f32
          tile.yield %both : f32
        } : (tensor<64x128xf32>) -> tensor<64xf32>
        %row = tile.expand_dims %col 0 : tensor<64xf32> -> tensor<1x64xf32>
        %r = tile.broadcast %row : tensor<1x64xf32> -> tensor<128x64xf32>
        scf.yield %r, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      } else {
        scf.yield %g, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      }
      %p = arith.truncf %w#0 : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %w#1 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "simple"} {
// No other schedule asks.
// CHECK-LABEL: func.func @simple
// CHECK: kgpu.channel groups
// CHECK-NOT: math.exp2
// CHECK: math.tanh
// CHECK-NOT: math.exp2
// CHECK-NOT: tile.unlikely
// CHECK: return
  func.func @simple(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %most = arith.constant dense<9.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %m = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %a = math.sin %m : tensor<128x64xf32>
      %g = math.exp2 %a : tensor<128x64xf32>
      %high = arith.cmpf ogt, %g, %most : tensor<128x64xf32>
      %any = tile.unlikely %high : tensor<128x64xi1>
      %w:2 = scf.if %any -> (tensor<128x64xf32>, tensor<128x64xf32>) {
        %r = math.tanh %a : tensor<128x64xf32>
        %scaled = arith.mulf %acc, %a : tensor<128x64xf32>
        scf.yield %r, %scaled : tensor<128x64xf32>, tensor<128x64xf32>
      } else {
        scf.yield %g, %acc : tensor<128x64xf32>, tensor<128x64xf32>
      }
      %p = arith.truncf %w#0 : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %w#1 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}
