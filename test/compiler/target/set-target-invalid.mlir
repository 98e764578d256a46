// A row written or edited by hand is checked before any pass reads it.
// RUN: kiln-opt %s --kiln-set-target -split-input-file -verify-diagnostics

// expected-error @+1 {{expected kiln.target to be a dictionary}}
module attributes {kiln.target = "cpu"} {
}

// -----

// expected-error @+1 {{expected kiln.target to hold the string 'name'}}
module attributes {kiln.target = {kind = "cpu"}} {
}

// -----

// expected-error @+1 {{expected kiln.target's 'kind' to be "cpu" or "cuda"}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "abacus"}} {
}

// -----

// expected-error @+1 {{expected kiln.target to hold 'register_tile' (two numbers), 'vector_bytes' and 'vector_registers'}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "cpu",
    register_tile = array<i64: 8>, vector_bytes = 64 : i64, vector_registers = 32 : i64}} {
}

// -----

// expected-error @+1 {{expected kiln.target's 'vector_bytes' to be a power of two of at least 16 and a positive tile}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "cpu",
    register_tile = array<i64: 8, 32>, vector_bytes = 48 : i64, vector_registers = 32 : i64, capabilities = []}} {
}

// -----

// expected-error @+1 {{unknown capability in kiln.target}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "cpu",
    register_tile = array<i64: 8, 32>, vector_bytes = 64 : i64, vector_registers = 32 : i64,
    capabilities = ["fma", "telepathy"]}} {
}

// -----

// expected-error @+1 {{expected kiln.target to hold 'vector_bytes' and 'limits'}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "cuda",
    vector_bytes = 16 : i64, capabilities = []}} {
}

// -----

// expected-error @+1 {{expected kiln.target's 'limits' to hold the positive number 'max_shared_bytes'}}
module attributes {kiln.target = {name = "x", triple = "", cpu = "", features = "", kind = "cuda",
    vector_bytes = 16 : i64, limits = {max_threads = 1024 : i64}, capabilities = []}} {
}
