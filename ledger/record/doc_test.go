package record

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/records.md from the code")

const recordsFile = "../../docs/records.md"

// TestRecordsDocument holds docs/records.md equal to the types it describes.
func TestRecordsDocument(t *testing.T) {
	want := recordsDocument(t)
	if *update {
		if err := os.WriteFile(recordsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(recordsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code says: run go test ./ledger/record -run TestRecordsDocument -update", recordsFile)
	}
}

const recordsIntro = `# Records, field by field

This file is written by a test from the code:
` + "`go test ./ledger/record -run TestRecordsDocument -update`" + `. The same test fails when
file and code differ. How records are encoded and signed is in [ledger.md](ledger.md).

A record is a CBOR map; the first column is its key. A field that may be left out is
left out when it is zero. NodeID, Ref and PublicKey are byte strings of 32 bytes. Amount
is µcredits, Work is nanoseconds of the reference GPU, Millis is milliseconds since 1970
or a span of them; they and the small enumerations are integers. Signed[X] is a byte
string that holds a whole signed X. A list of one-byte numbers is a byte string.
`

func recordsDocument(t *testing.T) []byte {
	b := bytes.NewBufferString(recordsIntro)
	set := token.NewFileSet()
	for _, name := range []string{"entry.go", "money.go", "keys.go", "supervise.go", "evidence.go", "job.go", "trade.go", "mesh.go", "record.go"} {
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				document(b, g)
			}
		}
	}
	return b.Bytes()
}

func document(b *bytes.Buffer, g *ast.GenDecl) {
	if g.Tok == token.CONST {
		enumeration(b, g)
		return
	}
	for _, s := range g.Specs {
		ts, ok := s.(*ast.TypeSpec)
		if !ok {
			return
		}
		st, ok := ts.Type.(*ast.StructType)
		if !ok || !ts.Name.IsExported() {
			return
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n| key | field | type | |\n|---|---|---|---|\n", ts.Name.Name, g.Doc.Text())
		for i, f := range st.Fields.List {
			row(b, i, f)
		}
	}
}

func row(b *bytes.Buffer, i int, f *ast.Field) {
	var tag reflect.StructTag
	if f.Tag != nil {
		tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
	}
	name := f.Names[0].Name
	if name == "_" {
		return
	}
	key, _, _ := strings.Cut(tag.Get("cbor"), ",")
	note := strings.TrimSpace(f.Doc.Text() + f.Comment.Text())
	note = strings.Join(strings.Fields(note), " ")
	if strings.Contains(tag.Get("cbor"), "omit") {
		note = strings.TrimPrefix(note+"; may be left out", "; ")
	}
	fmt.Fprintf(b, "| %s | %s | `%s` | %s |\n", cmp.Or(key, fmt.Sprintf("[%d]", i-1)), name, types.ExprString(f.Type), note)
}

// enumeration lists the constants of a group that starts with iota or a number.
func enumeration(b *bytes.Buffer, g *ast.GenDecl) {
	first := g.Specs[0].(*ast.ValueSpec)
	if first.Type == nil || len(g.Specs) < 2 {
		return
	}
	fmt.Fprintf(b, "\n%s is one of", types.ExprString(first.Type))
	for i, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		sep, note := ";", strings.TrimSpace(v.Comment.Text())
		if i == 0 {
			sep = ":"
		}
		if note != "" {
			note = " (" + note + ")"
		}
		fmt.Fprintf(b, "%s %d %s%s", sep, i+1, v.Names[0].Name, note)
	}
	b.WriteString(".\n")
}
