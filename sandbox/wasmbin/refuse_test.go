package wasmbin

import (
	"strings"
	"testing"
)

// fn is a module of one function () → () with that body, a table, an element
// segment and a global.
func fn(body string) []byte {
	return file(sec(1, "\x01\x60\x00\x00"), sec(3, "\x01\x00"), sec(4, "\x01\x70\x01\x01\x01"), sec(5, "\x01\x00\x01"),
		sec(6, "\x01\x7f\x01\x41\x00\x0b"), sec(9, "\x01\x01\x00\x01\x00"), sec(12, 1),
		sec(10, "\x01", len(body)+2, "\x00", body, "\x0b"), sec(11, "\x01\x01\x00"))
}

func TestInstructions(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"nothing":             {"", ""},
		"long numbers":        {"\x41\xff\xff\xff\xff\x07\x1a\x41\x80\x80\x80\x80\x78\x1a", ""},
		"padded number":       {"\x41\x80\x80\x80\x80\x00\x1a", ""},
		"least i64":           {"\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x1a", ""},
		"block of a type":     {"\x02\x00\x0b", ""},
		"if, else":            {"\x41\x00\x04\x7f\x41\x00\x05\x41\x01\x0b\x1a", ""},
		"saturating":          {"\x43\x00\x00\x00\x00\xfc\x00\x1a", ""},
		"sign extension":      {"\x41\x00\xc0\x1a", ""},
		"bulk memory":         {"\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00\xfc\x09\x00", ""},
		"bulk table":          {"\x41\x00\x41\x00\x41\x00\xfc\x0c\x00\x00\xfc\x0d\x00", ""},
		"table.grow bounded":  {"\xd0\x70\x41\x01\xfc\x0f\x00\x1a", ""},
		"SIMD":                {"\xfd\x0c" + string(times(16, "\x00")) + "\xfd\x53\x1a", ""},
		"typed select":        {"\x41\x00\x41\x00\x41\x00\x1c\x01\x7f\x1a", ""},
		"i32 of 6 bytes":      {"\x41\x80\x80\x80\x80\x80\x00", "longer than 32 bits"},
		"i32 of 33 bits":      {"\x41\xff\xff\xff\xff\x0f", "longer than 32 bits"},
		"i64 of 65 bits":      {"\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "longer than 64 bits"},
		"index of 33 bits":    {"\x20\xff\xff\xff\xff\x1f", "longer than 32 bits"},
		"index of 6 bytes":    {"\x20\x80\x80\x80\x80\x80\x00", "longer than 32 bits"},
		"local":               {"\x20\x00\x1a", "local 0 does not exist"},
		"global":              {"\x23\x01\x1a", "global 1 does not exist"},
		"function":            {"\x10\x01", "function 1 does not exist"},
		"ref.func":            {"\xd2\x01\x1a", "function 1 does not exist"},
		"indirect type":       {"\x41\x00\x11\x01\x00", "type 1 does not exist"},
		"indirect table":      {"\x41\x00\x11\x00\x01", "table 1 does not exist"},
		"table":               {"\x41\x00\x25\x01\x1a", "table 1 does not exist"},
		"table.copy":          {"\xfc\x0e\x00\x01", "table 1 does not exist"},
		"label":               {"\x0c\x01", "label 1 does not exist"},
		"br_table label":      {"\x41\x00\x0e\x01\x00\x01", "label 1 does not exist"},
		"element segment":     {"\xfc\x0d\x01", "element segment 1 does not exist"},
		"data segment":        {"\xfc\x09\x01", "data segment 1 does not exist"},
		"block type":          {"\x02\x01\x0b", "type 1, which does not exist"},
		"block type, GC":      {"\x02\x6d\x0b", "garbage collection"},
		"else alone":          {"\x05", "else without an if"},
		"two elses":           {"\x41\x00\x04\x40\x05\x05\x0b", "else without an if"},
		"end before the end":  {"\x0b\x01", "too many in the function body"},
		"no end":              {"\x02\x40", "ends too early"},
		"alignment":           {"\x41\x00\x28\x03\x00\x1a", "alignment 2^3"},
		"SIMD alignment":      {"\x41\x00\xfd\x00\x05\x00\x1a", "alignment 2^5"},
		"memory 1":            {"\x3f\x01\x1a", "multi-memory"},
		"load of memory 1":    {"\x41\x00\x28\x40\x01\x00\x1a", "multi-memory"},
		"copy to memory 1":    {"\xfc\x0a\x00\x01", "multi-memory"},
		"lane":                {"\xfd\x15\x10", "lane 16 of 16"},
		"load lane":           {"\xfd\x57\x03\x00\x02", "lane 2 of 2"},
		"shuffle lane":        {"\xfd\x0d" + string(times(16, "\x20")), "lane 32 of 32"},
		"select of two":       {"\x1c\x02\x7f\x7f", "select"},
		"select of none":      {"\x1c\x00", "select of 0 types"},
		"ref.null i32":        {"\xd0\x7f\x1a", "reference type"},
		"short constant":      {"\x44\x00", "constant of 8 bytes"},
		"threads":             {"\xfe\x00\x02\x00", "threads"},
		"tail call":           {"\x12\x00", "tail calls"},
		"indirect tail call":  {"\x13\x00\x00", "tail calls"},
		"try":                 {"\x06\x40\x0b", "exception handling"},
		"try_table":           {"\x1f\x40\x00\x0b", "exception handling"},
		"throw":               {"\x08\x00", "exception handling"},
		"call_ref":            {"\x14\x00", "typed function references"},
		"struct.new":          {"\xfb\x00\x00", "garbage collection"},
		"ref.eq":              {"\xd3", "garbage collection"},
		"relaxed SIMD":        {"\xfd\x80\x02", "relaxed SIMD"},
		"wide arithmetic":     {"\xfc\x13", "wide arithmetic"},
		"no such opcode":      {"\xff", "does not exist"},
		"no such misc opcode": {"\xfc\x12", "does not exist"},
		"no such SIMD opcode": {"\xfd\x9a\x01", "does not exist"},
		"huge SIMD opcode":    {"\xfd\x80\x80\x04", "does not exist"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, fn(tc.body), tc.want) })
	}
}

func TestSections(t *testing.T) {
	fun := string(sec(1, "\x01\x60\x00\x00")) + string(sec(3, "\x01\x00"))
	mem, tab := string(sec(5, "\x01\x00\x01")), string(sec(4, "\x01\x70\x00\x01"))
	body := string(sec(10, "\x01\x02\x00\x0b"))
	imp := func(kind string) string {
		return string(sec(1, "\x01\x60\x00\x00")) + string(sec(2, 1, name("a"), name("b"), kind))
	}
	for name, tc := range map[string]struct{ sections, want string }{
		"none":                {"", ""},
		"function":            {fun + body, ""},
		"two memories":        {string(sec(5, "\x02\x00\x01\x00\x01")), "multi-memory"},
		"shared memory":       {string(sec(5, "\x01\x03\x01\x01")), "threads"},
		"memory64":            {string(sec(5, "\x01\x04\x01")), "memory64"},
		"memory kind":         {string(sec(5, "\x01\x08\x01")), "does not exist"},
		"memory over maximum": {string(sec(5, "\x01\x01\x02\x01")), "memory of 2 to 1"},
		"memory over 4 GiB":   {string(sec(5, "\x01\x01\x02\x81\x80\x04")), "memory of 2 to 65537"},
		"shared table":        {string(sec(4, "\x01\x70\x03\x01\x01")), "threads"},
		"table with value":    {string(sec(4, "\x01\x40\x00\x70\x00\x01")), "typed function references"},
		"table of numbers":    {string(sec(4, "\x01\x7f\x00\x01")), "table type"},
		"17 tables":           {string(sec(4, 17, times(17, "\x70\x00\x01"))), "17 tables"},
		"tag section":         {string(sec(13, "\x00")), "exception handling"},
		"sections swapped":    {string(sec(3, "\x00")) + string(sec(1, "\x00")), "stands after the function section"},
		"section twice":       {mem + mem, "stands after the memory section"},
		"count after code":    {fun + body + string(sec(12, "\x00")), "stands after the code section"},
		"bytes left":          {string(sec(1, "\x00\x00")), "1 bytes too many"},
		"section too long":    {"\x01\x05\x00", "truncated"},
		"type form":           {string(sec(1, "\x01\x61\x00\x00")), "form 0x61"},
		"struct type":         {string(sec(1, "\x01\x5f\x00\x00")), "garbage collection"},
		"recursive types":     {string(sec(1, "\x01\x4e\x00\x00")), "garbage collection"},
		"parameter type":      {string(sec(1, "\x01\x60\x01\x11\x00")), "not a value type"},
		"1,001 parameters":    {string(sec(1, 1, "\x60", 1001, times(1001, "\x7f"), "\x00")), "1001 parameters"},
		"wide types":          {string(sec(1, 300, times(300, "\x60", 1000, times(1000, "\x7f"), "\x00"))), "parameters and results together"},
		"type of function":    {string(sec(3, "\x01\x00")), "type 0 does not exist"},
		"type of import":      {imp("\x00\x01"), "type 1 does not exist"},
		"imported memory":     {imp("\x02\x00\x01"), "no function"},
		"imported table":      {imp("\x01\x70\x00\x01"), "no function"},
		"imported global":     {imp("\x03\x7f\x00"), "no function"},
		"imported tag":        {imp("\x04\x00\x00"), "exception handling"},
		"reserved import":     {string(sec(1, "\x01\x60\x00\x00")) + string(sec(2, 1, name(Reserved+"fuel"), name("b"), "\x00\x00")), "reserved"},
		"name not UTF-8":      {string(sec(1, "\x01\x60\x00\x00")) + string(sec(2, 1, name("\xff"), name("b"), "\x00\x00")), "UTF-8"},
		"name too long":       {string(sec(7, 1, name(strings.Repeat("x", maxName+1)), "\x00\x00")), "name of 16385 bytes"},
		"name too short":      {string(sec(7, 1, "\x09ab\x00\x00")), "export name of 9 bytes"},
		"reserved export":     {fun + string(sec(7, 1, name(Reserved+"globals"), "\x00\x00")) + body, "reserved"},
		"export twice":        {fun + string(sec(7, 2, times(2, name("a"), "\x00\x00"))) + body, "exports a twice"},
		"export of nothing":   {string(sec(7, 1, name("a"), "\x02\x00")), "memory 0 does not exist"},
		"export of a kind":    {string(sec(7, 1, name("a"), "\x05\x00")), "kind 5"},
		"export of a tag":     {string(sec(7, 1, name("a"), "\x04\x00")), "exception handling"},
		"start":               {string(sec(8, "\x00")), "function 0 does not exist"},
		"no code":             {fun, "1 functions are declared, 0 have code"},
		"code of nothing":     {body, "1 function bodies for 0 functions"},
		"global mutability":   {string(sec(6, "\x01\x7f\x02\x41\x00\x0b")), "mutability 2"},
		"global of itself":    {string(sec(6, "\x01\x7f\x00\x23\x00\x0b")), "global 0 does not exist"},
		"computed global":     {string(sec(6, "\x01\x7f\x00\x41\x01\x41\x01\x6a\x0b")), "extended constant"},
		"called global":       {string(sec(6, "\x01\x7f\x00\x45\x0b")), "instruction 0x45 in an initial value"},
		"global type":         {string(sec(6, "\x01\x63\x70\x00\xd0\x70\x0b")), "typed function references"},
		"elements, no table":  {string(sec(9, "\x01\x00\x41\x00\x0b\x00")), "no table"},
		"element kind":        {tab + string(sec(9, "\x01\x01\x01\x00")), "element kind 1"},
		"element flag":        {tab + string(sec(9, "\x01\x08\x01\x00")), "kind 8"},
		"element function":    {tab + string(sec(9, "\x01\x00\x41\x00\x0b\x01\x00")), "function 0 does not exist"},
		"data, no memory":     {string(sec(11, "\x01\x00\x41\x00\x0b\x00")), "no memory"},
		"data of memory 1":    {mem + string(sec(11, "\x01\x02\x01\x41\x00\x0b\x00")), "multi-memory"},
		"data flag":           {mem + string(sec(11, "\x01\x03\x41\x00\x0b\x00")), "kind 3"},
		"data too long":       {mem + string(sec(11, "\x01\x00\x41\x00\x0b\x09a")), "data segment of 9 bytes"},
		"data count":          {mem + string(sec(12, "\x02")) + string(sec(11, "\x01\x01\x00")), "2 data segments are announced"},
		"data uncounted":      {fun + mem + string(sec(10, "\x01\x05\x00\xfc\x09\x00\x0b")), "without a data count"},
		"load, no memory":     {fun + string(sec(10, "\x01\x08\x00\x41\x00\x28\x00\x00\x1a\x0b")), "the module has none"},
		"name section twice":  {strings.Repeat(string(sec(0, name("name"))), 2), "second name section"},
		"names cut off":       {string(sec(0, name("name"), "\x01\x03\x01\x00\x05")), "name of 5 bytes"},
		"subsection":          {string(sec(0, name("name"), "\x01\x09\x00")), "subsection of 9 bytes"},
		"1,025 customs":       {strings.Repeat(string(sec(0, name("x"))), 1025), "more than 1024 custom sections"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, append([]byte(header), tc.sections...), tc.want) })
	}
}

func refused(t *testing.T, wasm []byte, want string) {
	t.Helper()
	_, err := Scan(wasm, Rules{MayImport: anything})
	switch {
	case want == "" && err != nil:
		t.Errorf("Scan = %v; want it accepted", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Scan = %v; want an error with %q", err, want)
	}
}
