package cpu_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kerneltest/onnx"
)

var update = flag.Bool("update", false, "write docs/onnx.md from what passes")

const onnxPage = "../../docs/onnx.md"

const onnxIntro = `# Kernels beside ONNX's operator cases

This file is written by a test: ` + "`go test ./gpu/cpu -run TestONNX -update`" + `, where Debian's package
` + "`libonnx-testdata`" + ` is installed. The same test runs the cases and fails when the file differs.

Of the cases that the ONNX project made for its operators, those whose operators are done by
kernels here must pass; those that ask for what no kernel claims are named with the reason.

| operator | cases that pass | left out |
|---|---|---|
`

// TestONNX runs cases that nobody here wrote.
func TestONNX(t *testing.T) {
	if _, err := os.Stat(onnx.Dir); err != nil {
		t.Skipf("%v: install libonnx-testdata", err)
	}
	page := []byte(onnxIntro + onnx.Run(t, cpu.New(0), onnx.Dir))
	if *update {
		if err := os.WriteFile(onnxPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(onnxPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page) {
		t.Errorf("%s is not what passes: run go test ./gpu/cpu -run TestONNX -update", onnxPage)
	}
}
