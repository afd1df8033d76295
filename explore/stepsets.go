package explore

import (
	"encoding/binary"
	"slices"
)

// stepSets numbers sets of steps, since many states have the same one. The zero value is ready to use.
type stepSets struct {
	ids     map[stepID]uint32
	names   []stepID
	numbers map[string]uint32 // by the sorted numbers of their steps
	sets    []string
}

// number returns the number of a set.
func (s *stepSets) number(steps []stepID) uint32 {
	if s.ids == nil {
		s.ids, s.numbers = map[stepID]uint32{}, map[string]uint32{}
	}
	ids := make([]uint32, len(steps))
	for i, id := range steps {
		n, known := s.ids[id]
		if !known {
			n = uint32(len(s.names))
			s.ids[id], s.names = n, append(s.names, id)
		}
		ids[i] = n
	}
	slices.Sort(ids)
	text := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		text = binary.LittleEndian.AppendUint32(text, id)
	}
	n, known := s.numbers[string(text)]
	if !known {
		n = uint32(len(s.sets))
		s.sets = append(s.sets, string(text))
		s.numbers[s.sets[n]] = n
	}
	return n
}

// steps returns the steps of a set.
func (s *stepSets) steps(number uint32) []stepID {
	text := []byte(s.sets[number])
	steps := make([]stepID, 0, len(text)/4)
	for ; len(text) > 0; text = text[4:] {
		steps = append(steps, s.names[binary.LittleEndian.Uint32(text)])
	}
	return steps
}
