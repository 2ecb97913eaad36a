package record

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

const cddlFile = "../../docs/records.cddl"

// TestCDDL holds docs/records.cddl equal to the types.
func TestCDDL(t *testing.T) {
	want := cddl()
	if *update {
		if err := os.WriteFile(cddlFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(cddlFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code says: run go test ./ledger/record -run TestCDDL -update", cddlFile)
	}
}

const cddlIntro = `; The records of Idlemesh in CDDL (RFC 8610). This file is written by a test from the
; code: go test ./ledger/record -run TestCDDL -update. Every record is CBOR in the core
; deterministic encoding, and bytes that are not are refused. What the fields mean is in
; records.md, how records are signed in ledger.md.

`

// nouns are the records that are signed by themselves, and those that travel sealed.
func nouns() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[Signed[Entry]](), reflect.TypeFor[Leaf](), reflect.TypeFor[Signed[Mesh]](), reflect.TypeFor[Signed[Advert]](),
		reflect.TypeFor[Body](), reflect.TypeFor[Tree](), reflect.TypeFor[Manifest](),
	}
}

func cddl() []byte {
	w := &cddlWriter{done: map[string]bool{}}
	w.WriteString(cddlIntro)
	for _, n := range nouns() {
		w.name(n)
	}
	for len(w.todo) > 0 {
		t := w.todo[0]
		w.todo = w.todo[1:]
		w.rule(t)
	}
	return w.Bytes()
}

type cddlWriter struct {
	bytes.Buffer
	done map[string]bool
	todo []reflect.Type
}

// name returns what a type is called and sees to it that it is described.
func (w *cddlWriter) name(t reflect.Type) string {
	n := cddlName(t)
	if !w.done[n] {
		w.done[n] = true
		w.todo = append(w.todo, t)
	}
	return n
}

func cddlName(t reflect.Type) string {
	if inner, ok := signedType(t); ok {
		return "signed-" + cddlName(inner)
	}
	if t == reflect.TypeFor[Raw]() {
		return "signed-Entry"
	}
	return t.Name()
}

// signedType returns the record inside a Signed.
func signedType(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.Name(), "Signed[") {
		return nil, false
	}
	f, _ := t.FieldByName("Value")
	return f.Type, true
}

func (w *cddlWriter) rule(t reflect.Type) {
	name := cddlName(t)
	inner, signed := signedType(t)
	switch {
	case signed:
		typ := reflect.Zero(inner).Interface().(Record).Type()
		fmt.Fprintf(w, "%s = #6.18([bstr .cbor {1: -19, 4: bstr .size 32, 16: %q}, {}, bstr .cbor %s, bstr .size 64])\n\n", name, typ, w.name(inner))
	case t.Kind() == reflect.Struct:
		w.structure(name, t)
	default:
		fmt.Fprintf(w, "%s = %s\n\n", name, w.kind(t))
	}
}

func (w *cddlWriter) structure(name string, t reflect.Type) {
	var fields []string
	open, shut := "{", "}"
	for i := range t.NumField() {
		f := t.Field(i)
		key, opts, _ := strings.Cut(f.Tag.Get("cbor"), ",")
		switch {
		case f.Name == "_":
			open, shut = "[", "]"
			continue
		case key == "": // of an array
			fields = append(fields, fmt.Sprintf("  %s: %s,\n", f.Name, w.of(f.Type)))
			continue
		}
		maybe := ""
		if strings.Contains(opts, "omit") {
			maybe = "? "
		}
		fields = append(fields, fmt.Sprintf("  %s%s: %s%s, ; %s\n", maybe, key, w.of(f.Type), orNil(f.Type, maybe == ""), f.Name))
	}
	fmt.Fprintf(w, "%s = %s\n%s%s\n\n", name, open, strings.Join(fields, ""), shut)
}

// of says what a field of a type holds.
func (w *cddlWriter) of(t reflect.Type) string {
	_, signed := signedType(t)
	switch {
	case t.Kind() == reflect.Pointer:
		return w.of(t.Elem())
	case signed || t == reflect.TypeFor[Raw]():
		return "bstr .cbor " + w.name(t)
	case t.PkgPath() != "":
		return w.name(t)
	}
	return w.kind(t)
}

// orNil allows what a list that was never made encodes as.
func orNil(t reflect.Type, may bool) string {
	if may && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && t != reflect.TypeFor[Raw]() {
		return " / nil"
	}
	return ""
}

// kind is a type's form where it has no fields.
func (w *cddlWriter) kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("uint .size %d", t.Bits()/8)
	case reflect.Uint64:
		return "uint"
	case reflect.Int64:
		return "int"
	case reflect.Bool, reflect.String, reflect.Float64:
		return map[reflect.Kind]string{reflect.Bool: "bool", reflect.String: "tstr", reflect.Float64: "float"}[t.Kind()]
	case reflect.Array:
		return fmt.Sprintf("bstr .size %d", t.Len())
	case reflect.Map:
		return fmt.Sprintf("{* %s => %s}", w.of(t.Key()), w.of(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bstr"
		}
		return fmt.Sprintf("[* %s]", w.of(t.Elem()))
	}
	panic("no CDDL for " + t.String())
}
