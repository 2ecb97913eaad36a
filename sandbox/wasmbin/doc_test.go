package wasmbin

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/fuel.md from the code")

const fuelFile = "../../docs/fuel.md"

// TestFuelDocument holds docs/fuel.md equal to the code it describes.
func TestFuelDocument(t *testing.T) {
	want := fuelDocument()
	if *update {
		if err := os.WriteFile(fuelFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(fuelFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code says: run go test ./sandbox/wasmbin -run TestFuelDocument -update; a change of cost needs a new Version", fuelFile)
	}
}

const fuelIntro = `# What code costs

This file is written by a test from the code: ` + "`go test ./sandbox/wasmbin -run TestFuelDocument -update`" + `.
The same test fails when file and code differ. It describes version %d, which receipts name.

Before a node compiles a module it rewrites it, so that it counts **fuel**. The same module
with the same inputs uses the same fuel on every machine, whether it is compiled or
interpreted. A unit is about a nanosecond of a guest's own work; what the host does for a
guest is in [abi.md](abi.md), and kernels are metered by their shapes.

## How it is counted

Code is charged by **regions**: an instruction belongs to the region of the one before it
unless a branch, a return, a loop's beginning or an arm of an if lies between; behind the end
of a block the region before the block goes on, unless a branch inside may have led past it.
A region is charged as a whole when its first instruction is reached. Code that is never
reached costs nothing.

Whether any fuel is left is looked at where a loop begins, where a function begins that
has loops, calls or more than %d units of code, and at least each %d units. There a run
may be ended: by its fuel limit, its time limit, a cancellation, or for the node's owner.

## Instructions

| fuel | instructions |
|---|---|
`

const fuelSizes = `
What is moved or added costs besides:

| instruction | fuel |
|---|---|
| memory.fill, memory.copy, memory.init | 1 for each %d bytes; looked at each %d bytes |
| table.fill, table.copy, table.init, table.grow | 1 for each %d entries |
| memory.grow | %d, and %d for each page asked for, up to %d pages |

## Depth of calls

Calls that nest take stack. Each function that calls others takes, in words of 8 bytes, %d
and the most of: the values that live through its calls or where its paths meet, but no more
than its instructions and locals; its operand stack at the highest; what its calls and blocks
hand over. Vectors count double in modules that have any. At %d words a run ends.

## Floats

Which NaN an operation yields depends on the processor. Where the result's bits can be
seen (stored, reinterpreted, passed on), a canonical NaN takes its place: sign bit clear,
of the fraction only the highest bit set. NaNs that are loaded or constants keep their bits.

## What else a node changes

Mutable globals are exported as ` + "`%sN`" + `, the start function as ` + "`%s`" + `, fuel and depth as
` + "`%s`" + ` and ` + "`%s`" + `; one function is imported, ` + "`%s.%s`" + `. Debug sections are left out, and
adjacent data segments joined. Names of
functions stay, so that traps show them.
`

func fuelDocument() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, fuelIntro, Version, trivialWeight, maxUnchecked)
	byFuel := map[uint8][]string{}
	add := func(fuel uint8, name string) { byFuel[fuel] = append(byFuel[fuel], name) }
	for c := range 256 {
		if plainOps[c].imm != unknown && c != opMemoryGrow {
			add(plainFuel[c], fmt.Sprintf("%02x", c))
		}
	}
	for _, group := range []struct {
		prefix string
		ops    *[256]op
		fuel   *[256]uint8
	}{{"fc", &miscOps, &miscFuel}, {"fd", &vectorOps, &vectorFuel}} {
		for c := range 256 {
			if group.ops[c].imm != unknown {
				add(group.fuel[c], fmt.Sprintf("%s:%02x", group.prefix, c))
			}
		}
	}
	for fuel := range 256 {
		if l := byFuel[uint8(fuel)]; l != nil {
			fmt.Fprintf(&b, "| %d | %s |\n", fuel, strings.Join(runs(l), ", "))
		}
	}
	b.WriteString("\nNumbers are opcodes, hexadecimal; `fc:` and `fd:` are prefixes (bulk operations, vectors).\n")
	fmt.Fprintf(&b, fuelSizes, 1<<bytesShift, piece, 1<<entriesShift, growWeight, pageWeight, MaxPages, frameSlots, MaxDepth,
		GlobalPrefix, Start, Fuel, Depth, HostModule, HostRefuel)
	return b.Bytes()
}

// runs joins neighbours: 45, 46, 47 are 45–47.
func runs(l []string) (out []string) {
	value := func(s string) (prefix string, n int) {
		p, last, ok := strings.Cut(s, ":")
		if !ok {
			p, last = "", s
		}
		fmt.Sscanf(last, "%x", &n)
		return p, n
	}
	for i := 0; i < len(l); {
		j := i
		for ; j+1 < len(l); j++ {
			p, a := value(l[j])
			if q, b := value(l[j+1]); p != q || b != a+1 {
				break
			}
		}
		if j > i {
			out = append(out, "`"+l[i]+"`–`"+l[j]+"`")
		} else {
			out = append(out, "`"+l[i]+"`")
		}
		i = j + 1
	}
	return out
}
