// A block that is added to the product is also copied by the loading role, through a channel of one slot; but not if
// the kernel may store there. A result of its type leaves through that slot, which is released once it has been read.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s
// Threads of a group exchange rows in the slot, so that what one writes the other has read.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline | FileCheck %s --check-prefix=ORDERED

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: @added
// CHECK: %[[RING:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <5 x
// CHECK: %[[ADDED:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x
// CHECK: kgpu.roles @load
// CHECK:   iter_args(%{{.*}} = %{{.*}}, %[[AT:.*]] = %{{.*}}) -> (!kgpu.cursor<5>, !kgpu.cursor<1>)
// CHECK:     scf.for
// CHECK:     %[[SLOT:.*]] = kgpu.acquire %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.copy_in %{{.*}} to %[[SLOT]] of %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.commit %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.advance %[[AT]]
// CHECK: @multiply
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK:     %[[SLOT:.*]] = kgpu.receive %[[ADDED]][%[[AT:.*]]]
// CHECK:     kgpu.local_load %[[SLOT]]
// CHECK-NOT: kgpu.release %[[ADDED]]
// CHECK-NOT: kgpu.alloc
// CHECK:     kgpu.local_store %{{.*}}, %[[SLOT]]
// CHECK-NEXT: kgpu.copy_out %[[SLOT]]
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release %[[ADDED]][%[[AT]]]
// ORDERED-LABEL: func.func @added
// ORDERED: %[[SLOT:.*]] = kgpu.receive %{{.*}} -> !kgpu.mem<128x128xf16
// ORDERED: kgpu.local_load %[[SLOT]]
// ORDERED: kgpu.barrier group
// ORDERED-NEXT: kgpu.local_store %{{.*}}, %[[SLOT]]
// ORDERED-NEXT: kgpu.fence_async
// ORDERED-NEXT: kgpu.barrier group
// ORDERED-NEXT: kgpu.copy_out %[[SLOT]]
  func.func @added(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %do = tile.make_desc %out, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wide = arith.extf %added : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %narrow = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %do[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// The addend has another type than the result, which leaves through memory of its own.
// CHECK-LABEL: @rounded
// CHECK: @multiply
// CHECK: %[[SLOT:.*]] = kgpu.receive %[[ADDED:.*]][%[[AT:.*]]] : {{.*}} -> !kgpu.mem<128x128xf32
// CHECK-NEXT: kgpu.local_load %[[SLOT]]
// CHECK-NEXT: kgpu.release %[[ADDED]][%[[AT]]]
// CHECK: %[[OUT:.*]] = kgpu.alloc
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.local_store %{{.*}}, %[[OUT]]
  func.func @rounded(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %do = tile.make_desc %out, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf32>> -> tensor<128x128xf32>
    %both = arith.addf %sum, %added : tensor<128x128xf32>
    %narrow = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %do[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// Of two addends, the first one's slot is used; the second is released when it has been read.
// CHECK-LABEL: @twice
// CHECK: @multiply
// CHECK: kgpu.mma_wait %{{.*}} pending 0
// CHECK: %[[FIRST:.*]] = kgpu.receive %[[CHANNEL:.*]][%[[AT:.*]]] :
// CHECK-NEXT: kgpu.local_load %[[FIRST]]
// CHECK: %[[SECOND:.*]] = kgpu.receive %[[OTHER:.*]][%[[PLACE:.*]]] :
// CHECK-NEXT: kgpu.local_load %[[SECOND]]
// CHECK-NEXT: kgpu.release %[[OTHER]][%[[PLACE]]]
// CHECK: kgpu.local_store %{{.*}}, %[[FIRST]]
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release %[[CHANNEL]][%[[AT]]]
  func.func @twice(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %do = tile.make_desc %out, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wide = arith.extf %added : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %second = tile.desc_load %dc[%apart, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wider = arith.extf %second : tensor<128x128xf16> to tensor<128x128xf32>
    %three = arith.addf %both, %wider : tensor<128x128xf32>
    %narrow = arith.truncf %three : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %do[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: @in_place
// CHECK: kgpu.channel
// CHECK-NOT: kgpu.channel
// CHECK: @multiply
// CHECK: tile.desc_load
  func.func @in_place(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wide = arith.extf %added : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %narrow = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dc[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}
