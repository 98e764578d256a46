// RUN: kiln-opt %s --split-input-file --kiln-overlap-launches | FileCheck %s

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Waits before the first access, and lets the next launch begin after the first run of reads.
// CHECK-LABEL: func.func public @run(
// CHECK-NOT: launch_dependents
// CHECK: tile.wait_for_grid
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: arith.addi
// CHECK-NOT: {{wait_for_grid|launch_dependents}}
// CHECK: return
module attributes {kgpu.pdl} {
  func.func public @run(%xp: !tile.ptr<i32>, %yp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %y = tile.splat %yp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %y : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }

  // A write ends the run before its values are needed.
  // CHECK-LABEL: func.func public @write(
  // CHECK: tile.load
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: tile.store
  func.func public @write(%xp: !tile.ptr<i32>, %yp: !tile.ptr<i32>)
      attributes {tile.kernel} {
    %s = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %y = tile.splat %yp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %y, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }

  // What is asked for may still be written by the launch before.
  // CHECK-LABEL: func.func public @prefetch(
  // CHECK: tile.prefetch
  // CHECK-NEXT: tile.wait_for_grid
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: tile.store
  func.func public @prefetch(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    tile.prefetch %x : tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }

  // A volatile read that the kernel has before its wait is no run: the next launch would begin before this one waits.
  // CHECK-LABEL: func.func public @early_read(
  // CHECK: tile.load {{.*}}isVolatile
  // CHECK: tile.prefetch
  // CHECK-NEXT: tile.wait_for_grid
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: tile.store
  func.func public @early_read(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %i = tile.load %x {isVolatile} : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %y = tile.addptr %x, %i : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    tile.prefetch %y : tensor<128x!tile.ptr<i32>, #b>
    tile.wait_for_grid
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }

  // A ring's first copies belong to what a launch reads first: the next one would ask for memory ahead of them.
  // CHECK-LABEL: func.func public @copies(
  // CHECK: tile.wait_for_grid
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: scf.for
  // CHECK: kgpu.commit
  // CHECK-NEXT: }
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: tile.store
  func.func public @copies(%at: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %ch = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<128xi32, #layout.map<row_major [128]>>)>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %p = tile.splat %at : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v = tile.load %p : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %s = kgpu.acquire %ch[%c] : !kgpu.channel<2 x (!kgpu.mem<128xi32, #layout.map<row_major [128]>>)> -> !kgpu.mem<128xi32, #layout.map<row_major [128]>>
      kgpu.copy_tile %p to %s of %ch[%c] : tensor<128x!tile.ptr<i32>, #b>, !kgpu.mem<128xi32, #layout.map<row_major [128]>>, !kgpu.channel<2 x (!kgpu.mem<128xi32, #layout.map<row_major [128]>>)>
      kgpu.commit %ch[%c] : !kgpu.channel<2 x (!kgpu.mem<128xi32, #layout.map<row_major [128]>>)>
    }
    tile.store %p, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }

  // A loop before any run: the next launch may begin after the wait, which comes before the loop, which reads.
  // CHECK-LABEL: func.func public @loop(
  // CHECK-NOT: launch_dependents
  // CHECK: tile.wait_for_grid
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: scf.for
  func.func public @loop(%xp: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
      tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    return
  }

  // Also if the kernel says itself where it waits.
  // CHECK-LABEL: func.func public @said_wait(
  // CHECK-NOT: launch_dependents
  // CHECK: tile.wait_for_grid
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: scf.for
  func.func public @said_wait(%xp: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    tile.wait_for_grid
    scf.for %i = %c0 to %n step %c1 : i32 {
      %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
      tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    return
  }

  // Each role waits separately; a role without memory accesses does not.
  // CHECK-LABEL: func.func public @roles(
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: kgpu.roles @reads
  // CHECK-NEXT: tile.wait_for_grid
  // CHECK-NEXT: tile.load
  // CHECK: @idles
  // CHECK-NEXT: kgpu.end_role
  // CHECK: tile.wait_for_grid
  // CHECK-NEXT: return
  func.func public @roles(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    kgpu.roles @reads warps 1 {
      %v = tile.load %p : !tile.ptr<i32> -> i32
      tile.store %p, %v : !tile.ptr<i32>, i32
      kgpu.end_role
    } @idles warps 1 {
      kgpu.end_role
    }
    return
  }

  // Explicit ops in the kernel get no others added.
  // CHECK-LABEL: func.func public @said(
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: tile.wait_for_grid
  // CHECK-NEXT: tile.store
  // CHECK-NEXT: tile.launch_dependents
  // CHECK-NEXT: return
  func.func public @said(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    %v = tile.load %p : !tile.ptr<i32> -> i32
    tile.wait_for_grid
    tile.store %p, %v : !tile.ptr<i32>, i32
    tile.launch_dependents
    return
  }
}

// -----

// Launches that do not overlap are unchanged.
// CHECK-LABEL: func.func public @alone(
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
// CHECK-NEXT: return
func.func public @alone(%p: !tile.ptr<i32>) attributes {tile.kernel} {
  %v = tile.load %p : !tile.ptr<i32> -> i32
  tile.store %p, %v : !tile.ptr<i32>, i32
  return
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Programs that are all resident at once take no room from those of the next launch.
// CHECK-LABEL: func.func public @single_wave(
// CHECK-NEXT: tile.launch_dependents
// CHECK: tile.wait_for_grid
// CHECK-NEXT: tile.load
// CHECK-NOT: {{wait_for_grid|launch_dependents}}
// CHECK: return
module attributes {kgpu.pdl, kgpu.single_wave} {
  func.func public @single_wave(%xp: !tile.ptr<i32>, %yp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %y = tile.splat %yp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %y, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

// The arrival at the cluster barrier comes first: other blocks wait for it.
// CHECK-LABEL: func.func public @single_wave_of_clusters(
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: tile.wait_for_grid
// CHECK-NEXT: tile.load
module attributes {kgpu.pdl, kgpu.single_wave, kgpu.cluster = 2 : i32} {
  func.func public @single_wave_of_clusters(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    kgpu.cluster_arrive
    %v = tile.load %p : !tile.ptr<i32> -> i32
    kgpu.cluster_wait
    tile.store %p, %v : !tile.ptr<i32>, i32
    return
  }
}
