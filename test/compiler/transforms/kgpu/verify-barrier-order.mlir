// Arrivals at the cluster barrier and waits for it alternate on every path, whichever op brings them, and there is no
// barrier where threads diverge.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

// Valid: halves around other work, whole barriers between pairs, branches and loops that end in the state in which they
// began.
module attributes {kgpu.cluster = 2 : i32} {
  func.func @correct(%c: i1, %n: i32, %p: !tile.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    kgpu.cluster_arrive relaxed
    kgpu.barrier cta
    kgpu.cluster_wait
    kgpu.barrier cluster
    kgpu.cluster_arrive
    scf.if %c {
      kgpu.cluster_wait
      tile.barrier
    } else {
      kgpu.cluster_wait
    }
    scf.for %i = %zero to %n step %one : i32 {
      %old = tile.atomic_rmw add acq_rel gpu %p, %one : !tile.ptr<i32>, i32
      kgpu.cluster_arrive
      scf.if %c {
        kgpu.barrier cta
      }
      kgpu.cluster_wait
    }
    kgpu.cluster_arrive
    // No barrier in the loop: the arrival may stay open across it.
    scf.for %i = %zero to %n step %one : i32 {
      %old = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
    }
    // Open whenever the condition is evaluated, and so also on exit.
    scf.while : () -> () {
      kgpu.cluster_wait
      kgpu.cluster_arrive
      scf.condition(%c)
    } do {
      kgpu.cluster_wait
      kgpu.cluster_arrive
      scf.yield
    }
    kgpu.cluster_wait
    return
  }

  func.func @while(%c: i1) {
    scf.while : () -> () {
      kgpu.cluster_arrive
      scf.condition(%c)
    } do {
      kgpu.cluster_wait
      scf.yield
    }
    kgpu.cluster_wait
    return
  }
}

// -----

// A single CTA is not a cluster: the program's barriers are the CTA's, and may come in between.
func.func @one_cta(%p: !tile.ptr<i32>, %one: i32) {
  kgpu.cluster_arrive
  tile.barrier
  %old = tile.atomic_rmw add acq_rel gpu %p, %one : !tile.ptr<i32>, i32
  kgpu.cluster_wait
  return
}

// -----

func.func @wait_alone() {
  // expected-error @below {{'kgpu.cluster_wait' op expected an arrival at the barrier of the cluster on every path to this wait (because the barrier never completes without this thread's arrival), got a path without one}}
  kgpu.cluster_wait
  return
}

// -----

func.func @waited_twice() {
  kgpu.cluster_arrive
  kgpu.cluster_wait
  // expected-error @below {{expected an arrival at the barrier of the cluster on every path to this wait}}
  kgpu.cluster_wait
  return
}

// -----

func.func @wait_after_a_whole_barrier() {
  kgpu.barrier cluster
  // expected-error @below {{expected an arrival at the barrier of the cluster on every path to this wait}}
  kgpu.cluster_wait
  return
}

// -----

func.func @left_open() {
  // expected-error @below {{'kgpu.cluster_arrive' op expected a wait for this arrival on every path (because a thread may not exit with an arrival at the barrier of the cluster pending), got a return}}
  kgpu.cluster_arrive
  // expected-note @below {{the return}}
  return
}

// -----

func.func @arrived_twice() {
  // expected-note @below {{the arrival}}
  kgpu.cluster_arrive relaxed
  // expected-error @below {{'kgpu.cluster_arrive' op expected a wait before this arrives at the barrier of the cluster (because a thread may arrive only once per phase), got a second arrival}}
  kgpu.cluster_arrive
  kgpu.cluster_wait
  return
}

// -----

func.func @whole_barrier_between() {
  // expected-note @below {{the arrival}}
  kgpu.cluster_arrive relaxed
  // expected-error @below {{'kgpu.barrier' op expected a wait before this arrives at the barrier of the cluster}}
  kgpu.barrier cluster
  kgpu.cluster_wait
  return
}

// -----

// If an instance is a cluster, the program's barrier is the cluster's.
module attributes {kgpu.cluster = 2 : i32} {
  func.func @program_barrier_between() {
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive relaxed
    // expected-error @below {{'tile.barrier' op expected a wait before this arrives at the barrier of the cluster}}
    tile.barrier
    kgpu.cluster_wait
    return
  }
}

// -----

// So is the one that an atomic's memory order brings: before it,
module attributes {kgpu.cluster = 2 : i32} {
  func.func @release_between(%p: !tile.ptr<i32>, %one: i32) {
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive relaxed
    // expected-error @below {{'tile.atomic_rmw' op expected a wait before this arrives at the barrier of the cluster}}
    %old = tile.atomic_rmw add release gpu %p, %one : !tile.ptr<i32>, i32
    kgpu.cluster_wait
    return
  }
}

// -----

// and after it, here around a loop.
module attributes {kgpu.cluster = 2 : i32} {
  func.func @acquire_between(%p: !tile.ptr<i32>, %one: i32, %n: i32) {
    %zero = arith.constant 0 : i32
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive
    scf.for %i = %zero to %n step %one : i32 {
      // expected-error @below {{'tile.atomic_cas' op expected a wait before this arrives at the barrier of the cluster}}
      %old = tile.atomic_cas acquire cta %p, %one, %zero : !tile.ptr<i32>, i32
    }
    kgpu.cluster_wait
    return
  }
}

// -----

func.func @arrives_in_one_branch(%c: i1) {
  // expected-error @below {{'scf.if' op expected both branches to leave the same number of pending arrivals at the barrier of the cluster (because the code after them is the same for both), got only one that arrives alone}}
  scf.if %c {
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive
  }
  // Repeating the condition does not help: the analysis does not correlate paths.
  scf.if %c {
    kgpu.cluster_wait
  }
  return
}

// -----

func.func @waits_in_one_branch(%c: i1) {
  // expected-note @below {{the arrival}}
  kgpu.cluster_arrive
  // expected-error @below {{'scf.if' op expected both branches to leave the same number of pending arrivals at the barrier of the cluster (because the code after them is the same for both), got only one that waits alone}}
  scf.if %c {
    kgpu.barrier cta
  } else {
    kgpu.cluster_wait
  }
  return
}

// -----

func.func @arrives_in_every_iteration(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-error @below {{'scf.for' op expected each iteration to wait for exactly its own arrivals at the barrier of the cluster (because all iterations run the same code), got an arrival without a wait}}
  scf.for %i = %zero to %n step %one : i32 {
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive
  }
  kgpu.cluster_wait
  return
}

// -----

func.func @waits_in_every_iteration(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{the arrival}}
  kgpu.cluster_arrive
  // expected-error @below {{'scf.for' op expected each iteration to wait for exactly its own arrivals at the barrier of the cluster (because all iterations run the same code), got a wait for an arrival from before the loop}}
  scf.for %i = %zero to %n step %one : i32 {
    kgpu.cluster_wait
  }
  return
}

// -----

// The condition region runs once more often than the body.
func.func @while_of_halves(%c: i1) {
  // expected-error @below {{'scf.while' op expected each iteration to wait for exactly its own arrivals at the barrier of the cluster}}
  scf.while : () -> () {
    // expected-note @below {{the arrival}}
    kgpu.cluster_arrive
    scf.condition(%c)
  } do {
    scf.yield
  }
  kgpu.cluster_wait
  return
}

// -----

func.func @while_left_open(%c: i1) {
  scf.while : () -> () {
    // expected-error @below {{'kgpu.cluster_arrive' op expected a wait for this arrival on every path}}
    kgpu.cluster_arrive
    scf.condition(%c)
  } do {
    kgpu.cluster_wait
    scf.yield
  }
  // expected-note @below {{the return}}
  return
}

// -----

// Threads may take different iterations. CTA barriers are as invalid there as cluster barriers.
func.func @threads_part(%n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.parallel (%i) = (%zero) to (%n) step (%one) {
    // expected-error @below {{'kgpu.barrier' op expected barriers only in branches and loops (because a barrier waits for all threads, and other regions may run on some of them only), got one inside scf.parallel}}
    kgpu.barrier cta
  }
  return
}

// -----

func.func @threads_part_deeper(%n: index, %c: i1, %p: !tile.ptr<i32>, %v: i32) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.parallel (%i) = (%zero) to (%n) step (%one) {
    scf.if %c {
      // expected-error @below {{'tile.atomic_rmw' op expected barriers only in branches and loops}}
      %old = tile.atomic_rmw add acquire gpu %p, %v : !tile.ptr<i32>, i32
    }
  }
  return
}
