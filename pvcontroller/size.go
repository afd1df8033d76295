package pvcontroller

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A size is an amount of storage as an integer that sorts as quantities do, so that a comparison
// takes one instruction. An even size, 2n+2, is exactly n bytes. An odd size, 2n+1, is a quantity
// that is not a whole number of bytes (more than n-1 and less than n) or out of range: the largest
// size is everything from MaxInt64 bytes up, and 1 is everything negative. Quantities of the same
// odd size may differ and must be compared themselves.
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

// isExact reports whether all quantities of this size are equal.
func (s size) isExact() bool { return s%2 == 0 }
