// Roles that a block cannot have.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm -verify-diagnostics

// 384 threads start with 168 registers: 64,512 in all. The filler warps keep as many as their role has.
module {
  func.func public @registers() attributes {tile.kernel} {
    // expected-error @below {{expected roles that together have at most 64512 registers (because 384 threads start with 168 each), got 66560}}
    kgpu.roles @load warps 1 registers 40 {
      kgpu.end_role
    } @multiply groups 2 warps 4 registers 240 {
      kgpu.end_role
    }
    return
  }
}

// -----

// If the launch limits registers, that limit is what there is.
module attributes {kgpu.max_registers = 100 : i32} {
  func.func public @limit() attributes {tile.kernel} {
    // expected-error @below {{expected roles that together have at most 24576 registers (because 256 threads start with 96 each), got 25600}}
    kgpu.roles @load warps 4 registers 40 {
      kgpu.end_role
    } @multiply warps 4 registers 160 {
      kgpu.end_role
    }
    return
  }
}

// -----

module {
  func.func public @threads() attributes {tile.kernel} {
    // expected-error @below {{expected at most 1024 threads (because a block holds no more), got 1152}}
    kgpu.roles @load warps 1 {
      kgpu.end_role
    } @multiply groups 8 warps 4 {
      kgpu.end_role
    }
    return
  }
}

// -----

// The hardware has only sixteen barriers to synchronise groups of warps.
module {
  func.func public @barriers() attributes {tile.kernel} {
    // expected-error @below {{expected at most 15 roles and groups (because each has a barrier of its own), got 16}}
    kgpu.roles @one groups 7 warps 1 {
      kgpu.barrier group
      kgpu.end_role
    } @two groups 7 warps 1 {
      kgpu.barrier role
      kgpu.end_role
    }
    return
  }
}

// -----

// A tile whose layout belongs to no threads.
func.func @no_layout() attributes {tile.kernel} {
  // expected-error @below {{expected a tile with a layout (because its registers follow from it), got 'tensor<64xi32>'}}
  %rows = tile.make_range 0 to 64 : tensor<64xi32>
  return
}
