package sandbox

// WASI is the table of WASI preview 1 for tests.
var WASI = wasi
