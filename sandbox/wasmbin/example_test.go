package wasmbin_test

import (
	"fmt"

	"idlemesh/sandbox/wasmbin"
)

func ExampleScan() {
	// One export is announced, and none is there.
	_, err := wasmbin.Scan([]byte("\x00asm\x01\x00\x00\x00\x07\x01\x01"), wasmbin.Rules{})
	fmt.Println(err)
	// Output: export section, byte 10: 1 exports cannot fit in the 0 bytes left
}
