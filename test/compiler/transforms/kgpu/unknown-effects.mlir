// Undeclared effects and unknown regions are rejected by every pass that relies on effects.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers -verify-diagnostics
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics
// RUN: kiln-opt %s --split-input-file --kiln-plan-shared-memory -verify-diagnostics
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm -verify-diagnostics

func.func @region(%p: !tile.ptr<f32>, %x: f32) attributes {tile.kernel} {
  // expected-error @below {{'scf.execute_region' op expected effects on memory only in branches, loops and roles (because it is not known when other regions run), got some elsewhere}}
  scf.execute_region {
    tile.store %p, %x : !tile.ptr<f32>, f32
    scf.yield
  }
  return
}

// -----

// An LLVM load reads memory, but does not say which.
func.func @effects(%a: i64) attributes {tile.kernel} {
  %q = llvm.inttoptr %a : i64 to !llvm.ptr
  // expected-error @below {{'llvm.load' op expected declared effects on global memory, shared memory or order (because barriers and waits are placed by the effects of an op), got other effects}}
  %x = llvm.load %q : !llvm.ptr -> f32
  return
}

// -----

func.func private @elsewhere()
func.func @nothing_declared() attributes {tile.kernel} {
  // expected-error @below {{'func.call' op expected declared effects}}
  func.call @elsewhere() : () -> ()
  return
}
