package job

import (
	"slices"
	"strconv"
	"strings"
)

// An interval is a range of indexes, both ends included.
type interval struct{ first, last int }

// intervals are ordered and neither overlap nor touch. As text they are "1,3-5".
type intervals []interval

// parseIntervals returns the intervals of indexes below completions. It skips what it cannot parse.
//
// Upstream: pkg/controller/job parseIndexesFromString (v1.36).
func parseIntervals(text string, completions int) intervals {
	var all intervals
	if text == "" {
		return nil
	}
	for _, part := range strings.Split(text, ",") {
		ends := strings.Split(part, "-")
		first, err := strconv.Atoi(ends[0])
		if err != nil {
			continue
		}
		if first >= completions {
			break
		}
		last := first
		if len(ends) > 1 {
			if last, err = strconv.Atoi(ends[1]); err != nil {
				continue
			}
		}
		in := interval{first, min(last, completions-1)}
		if n := len(all); n > 0 && all[n-1].last == first-1 {
			all[n-1].last = in.last
		} else {
			all = append(all, in)
		}
	}
	return all
}

// with returns the intervals with further ordered indexes.
func (all intervals) with(indexes []int) intervals {
	more := make(intervals, len(indexes))
	for i, index := range indexes {
		more[i] = interval{index, index}
	}
	return all.merge(more)
}

// merge returns the union with other ordered intervals.
func (all intervals) merge(others intervals) intervals {
	ordered := slices.Concat(all, others)
	slices.SortFunc(ordered, func(a, b interval) int { return a.first - b.first })
	var merged intervals
	for _, in := range ordered {
		if n := len(merged); n > 0 && in.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, in.last)
		} else {
			merged = append(merged, in)
		}
	}
	return merged
}

// total returns the number of indexes.
func (all intervals) total() int {
	n := 0
	for _, in := range all {
		n += in.last - in.first + 1
	}
	return n
}

// has reports whether an index is in one of the intervals.
func (all intervals) has(index int) bool {
	i, found := slices.BinarySearchFunc(all, index, func(in interval, index int) int { return in.last - index })
	return found || i < len(all) && all[i].first <= index
}

// shared returns the number of indexes that are in both.
func (all intervals) shared(others intervals) int {
	n := 0
	for i, j := 0, 0; i < len(all) && j < len(others); {
		a, b := all[i], others[j]
		n += max(0, min(a.last, b.last)-max(a.first, b.first)+1)
		if a.last <= b.last {
			i++
		}
		if b.last <= a.last {
			j++
		}
	}
	return n
}

// missing returns the first indexes below completions that are in none of the intervals, at most so many.
func (all intervals) missing(most, completions int) []int {
	var indexes []int
	next := 0
	for _, in := range append(slices.Clone(all), interval{completions, completions}) {
		for ; next < min(in.first, completions) && len(indexes) < most; next++ {
			indexes = append(indexes, next)
		}
		next = max(next, in.last+1)
	}
	return indexes
}

// String returns the intervals as text. Two indexes are no range.
func (all intervals) String() string {
	var out []string
	for _, in := range all {
		text := strconv.Itoa(in.first)
		switch {
		case in.last == in.first+1:
			text += "," + strconv.Itoa(in.last)
		case in.last > in.first:
			text += "-" + strconv.Itoa(in.last)
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}
