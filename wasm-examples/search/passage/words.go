package passage

// A feature is a word by its hash, below features. Different words rarely share one.
type feature uint32

const features = 1 << 20

// words calls each for every word of text: identifiers whole and, where they are made
// of several, their parts as well, all in lower case and without their endings.
func words(text []byte, each func(feature)) {
	for i := 0; i < len(text); {
		if !letter(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && letter(text[i]) {
			i++
		}
		identifier(text[start:i], each)
	}
}

func letter(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b >= 0x80
}

func upper(b byte) bool { return b >= 'A' && b <= 'Z' }

func lower(b byte) bool { return b >= 'a' && b <= 'z' }

// identifier cuts fooBar and HTTPServer, but not IPv4, into parts. Underscores have
// cut already.
func identifier(id []byte, each func(feature)) {
	const longest = 64 // beyond it are keys and encodings, not words
	if len(id) > longest || len(id) < 2 {
		return
	}
	start := 0
	for i := 1; i < len(id); i++ {
		next := upper(id[i]) && !upper(id[i-1])
		last := upper(id[i]) && i+2 < len(id) && lower(id[i+1]) && lower(id[i+2])
		if next || last {
			part(id[start:i], each)
			start = i
		}
	}
	if start > 0 {
		part(id[start:], each)
	}
	each(stem(id))
}

func part(id []byte, each func(feature)) {
	if len(id) > 1 {
		each(stem(id))
	}
}

// endings are cut off so long as four letters stay, so that resolver, resolves and
// resolving are one word.
var endings = [...]string{"ing", "ed", "er", "or", "ion", "s", "e", "ly"}

// stem hashes a word in lower case without its endings.
func stem(word []byte) feature {
	n := len(word)
	for again := true; again; {
		again = false
		for _, end := range endings {
			if n-len(end) >= 4 && suffix(word[:n], end) {
				n -= len(end)
				again = true
			}
		}
	}
	h := uint32(2166136261)
	for _, b := range word[:n] {
		h = (h ^ uint32(fold(b))) * 16777619
	}
	h ^= h >> 15
	h *= 0x2c1b3c6d
	return feature((h ^ h>>12) % features)
}

func suffix(word []byte, end string) bool {
	for i := range len(end) {
		if fold(word[len(word)-len(end)+i]) != end[i] {
			return false
		}
	}
	return true
}

func fold(b byte) byte {
	if upper(b) {
		return b | 0x20
	}
	return b
}
