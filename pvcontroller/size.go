package pvcontroller

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// size is an amount of storage as a number that sorts as the quantities do, so that a comparison of two takes one
// instruction. An even one, 2n+2, is n bytes just. An odd one, 2n+1, is something that is no whole number of bytes, or too
// large: more than n-1 bytes and less than n; the largest is all from MaxInt64 bytes up, and 1 all below none. Two
// quantities of the same odd size may differ: those are to be compared themselves.
type size uint64

func sizeOf(q resource.Quantity) size {
	if n, ok := q.AsInt64(); ok && n >= 0 && n < math.MaxInt64 {
		return 2*size(n) + 2
	}
	if q.Sign() < 0 {
		return 1
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxUint64
	}
	n := q.Value() // rounded up
	if q.CmpInt64(n) == 0 {
		return 2*size(n) + 2
	}
	return 2*size(n) + 1
}

// isExact tells whether quantities of this size are equal.
func (s size) isExact() bool { return s%2 == 0 }
