package fake

import (
	"encoding/hex"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"
)

// alphabet has the characters of generated suffixes. It has no vowels and no characters that look
// alike.
//
// Upstream: k8s.io/apimachinery/pkg/util/rand.
const alphabet = "bcdfghjklmnpqrstvwxz2456789"

const (
	suffixLen       = 5
	generatedMaxLen = 63 // longer prefixes are cut
)

// newUID returns the UID of the next object. It is unique in the server, and equal in servers with
// the same identity and history.
func (s *Server) newUID(resource, key string) types.UID {
	s.counters.Lock()
	s.uids++
	n := s.uids
	s.counters.Unlock()
	return s.uidOf(n, resource, key)
}

// uidOf returns the n-th UID. In servers with the same history it is equal if and only if their
// identities are.
func (s *Server) uidOf(n uint64, resource, key string) types.UID {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(resource))
	_, _ = hash.Write([]byte{'/'})
	_, _ = hash.Write([]byte(key))
	tail := mix(hash.Sum64() ^ n)
	// An odd factor maps the counter one to one onto 48 bits: these alone make the UID unique.
	head := n * 0x9e3779b97f4b & (1<<48 - 1)

	var b [16]byte
	for i := range 6 {
		b[i] = byte(head >> (40 - 8*i))
	}
	for i := range 8 {
		b[8+i] = byte(tail >> (56 - 8*i))
	}
	b[6], b[7] = b[12]&0x0f, b[13]^b[14]
	// The identity is added without loss: byte 6 takes the two bits of it that the variant replaces.
	for i := range 8 {
		b[8+i] ^= byte(s.identity >> (56 - 8*i))
	}
	b[6] ^= byte(s.identity >> 62)
	b[6] |= 0x40            // version 4
	b[8] = 0x80 | b[8]&0x3f // variant 1

	var text [36]byte
	hex.Encode(text[0:8], b[0:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:36], b[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return types.UID(text[:])
}

// mix spreads the bits of x (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// generateName returns a name that was not generated before. An object may still have it. Servers
// with different identities usually generate different names.
//
// Upstream: k8s.io/apiserver/pkg/storage/names.
func (s *Server) generateName(prefix string) string {
	s.counters.Lock()
	s.names++
	n := s.names
	s.counters.Unlock()

	const all = 27 * 27 * 27 * 27 * 27
	n = (n%all + s.identity%all) * 8_675_309 % all // no factor in common with 27: takes every value once in each round
	b := make([]byte, 0, generatedMaxLen)
	b = append(b, prefix[:min(len(prefix), generatedMaxLen-suffixLen)]...)
	for range suffixLen {
		b = append(b, alphabet[n%27])
		n /= 27
	}
	return string(b)
}
