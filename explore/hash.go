package explore

// mix hashes a number and a word.
func mix(n uint64, word string) uint64 {
	h := n ^ 0xcbf29ce484222325 // FNV-1a
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 0x100000001b3
	}
	return finish(h)
}

// finish spreads the bits, since numbers are combined with XOR.
func finish(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
