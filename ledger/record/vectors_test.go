package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"testing"
)

const vectorFile = "testdata/vectors.json"

// A vector is an encoded record for readers in other languages. One that stands in the
// file stays as it is for ever, and must always be read: a record that gets another
// field gets another vector.
type vector struct {
	Name string `json:"name"`
	Hash Ref    `json:"hash"` // SHA-256 of the bytes
	Hex  string `json:"bytes"`
}

func (v vector) bytes(t testing.TB) []byte {
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// samples are records of all kinds: each with nothing in it, and with everything.
func samples(t testing.TB) map[string][]byte {
	out := map[string][]byte{}
	for kind := TypeDeposit; kind.String() != "unknown"; kind++ {
		for name, full := range map[string]bool{"least": false, "full": true} {
			out["entry "+kind.String()+" "+name] = sample(t, reflect.TypeFor[Signed[Entry]](), kind, full)
		}
	}
	for _, n := range nouns()[1:] {
		out[cddlName(n)+" full"] = sample(t, n, TypeDeposit, true)
	}
	return out
}

func sample(t testing.TB, typ reflect.Type, kind EntryType, full bool) []byte {
	f := filler{TB: t, kind: kind, full: full}
	v := reflect.New(typ).Elem()
	f.fill(v)
	if s, ok := v.Interface().(interface{ Raw() Raw }); ok {
		return s.Raw()
	}
	b, err := Encode(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A filler gives every field of a record a value of its own.
type filler struct {
	testing.TB
	kind EntryType // of entries
	full bool
	n    uint64
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	if inner, ok := signedType(v.Type()); ok {
		f.sign(v, inner)
		return
	}
	if v.Type() == reflect.TypeFor[Raw]() {
		v.SetBytes(sample(f, reflect.TypeFor[Signed[Entry]](), f.kind, f.full))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fields(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint((f.n + uint64(i)) % 256)
		}
	case reflect.Slice:
		n := 2
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = 16
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Int64:
		v.SetInt(int64(f.n) * 1000)
	default:
		v.SetUint(f.n % 250)
	}
}

func (f *filler) fields(v reflect.Value) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if t.Name == "_" || !f.full && bytes.Contains([]byte(t.Tag.Get("cbor")), []byte("omit")) && v.Type() != reflect.TypeFor[Entry]() {
			continue
		}
		if v.Type() == reflect.TypeFor[Entry]() && t.Type.Kind() == reflect.Pointer && t.Name != bodyName[f.kind] {
			continue
		}
		f.fill(v.Field(i))
	}
	if e, ok := v.Addr().Interface().(*Entry); ok {
		e.V, e.Kind = 1, f.kind
	}
}

// sign fills a record, signs it and puts it where a signed one is wanted.
func (f *filler) sign(into reflect.Value, inner reflect.Type) {
	v := reflect.New(inner).Elem()
	f.fill(v)
	s, err := Sign(testKey(byte(f.n)), v.Interface().(Record))
	if err != nil {
		f.Fatal(err)
	}
	b, err := Encode([]byte(s.Raw()))
	if err != nil {
		f.Fatal(err)
	}
	if err := into.Addr().Interface().(interface{ UnmarshalCBOR([]byte) error }).UnmarshalCBOR(b); err != nil {
		f.Fatal(err)
	}
}

// bodyName is the field of an Entry that a kind has.
var bodyName = map[EntryType]string{
	TypeDeposit: "Deposit", TypeJob: "Job", TypeLease: "Lease", TypeSettle: "Settle", TypeCut: "Cut", TypeClose: "Close",
	TypeTransfer: "Transfer", TypeWithdraw: "Withdraw", TypeConfirm: "Confirm", TypeStake: "Stake", TypeUnstake: "Unstake",
	TypeVest: "Vest", TypeReward: "Reward", TypeTopUp: "TopUp", TypeCancel: "Cancel",
	TypeRegister: "Register", TypeRotate: "Rotate", TypeVeto: "Veto", TypeRevoke: "Revoke", TypeOwn: "Own",
	TypeVoucher: "Voucher", TypeDelegate: "Delegate", TypeAdopt: "Adopt", TypeParams: "Change", TypeEvidence: "Evidence",
}

func readVectors(t testing.TB) (out []vector) {
	b, err := os.ReadFile(vectorFile)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil && !*update {
		t.Fatal(err)
	}
	return out
}

// TestVectors holds that what this code makes today is in the file.
func TestVectors(t *testing.T) {
	have := readVectors(t)
	known := map[string]bool{}
	for _, v := range have {
		known[v.Hex] = true
	}
	names := map[string]int{}
	for _, v := range have {
		names[v.Name]++
	}
	fresh := samples(t)
	for _, name := range sorted(fresh) {
		b := fresh[name]
		if known[hex.EncodeToString(b)] {
			continue
		}
		if !*update {
			t.Errorf("%s: its bytes are new: if that is meant, run go test ./ledger/record -run TestVectors -update", name)
		}
		have = append(have, vector{name, hashOf(b), hex.EncodeToString(b)})
	}
	if *update {
		b, err := json.MarshalIndent(have, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVectorsOpen reads every vector ever made: strictly, and by docs/records.cddl.
func TestVectorsOpen(t *testing.T) {
	schema := readSchema(t)
	for _, v := range readVectors(t) {
		b := v.bytes(t)
		if hashOf(b) != v.Hash {
			t.Errorf("%s: the hash is %v", v.Name, hashOf(b))
		}
		rule, err := openAny(v.Name, b)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		if err := schema.check(rule, b); err != nil {
			t.Errorf("%s by %s: %v", v.Name, cddlFile, err)
		}
	}
}

// openAny decodes a record of the kind that its name starts with.
func openAny(name string, b []byte) (rule string, err error) {
	for _, n := range nouns() {
		rule = cddlName(n)
		if rule == "signed-Entry" && bytes.HasPrefix([]byte(name), []byte("entry ")) {
			e, err := Open[Entry](b)
			_, errs := OpenEntries([]Raw{b}, true)
			if err == nil && !reflect.ValueOf(e.Value).FieldByName(bodyName[e.Value.Kind]).IsValid() {
				err = fmt.Errorf("no body of a %v", e.Value.Kind)
			}
			return rule, firstError(err, errs[0])
		}
		if bytes.HasPrefix([]byte(name), []byte(rule+" ")) {
			if _, ok := signedType(n); ok {
				if b, err = Encode(b); err != nil {
					return rule, err
				}
			}
			return rule, Decode(b, reflect.New(n).Interface())
		}
	}
	return "", fmt.Errorf("no such record")
}
