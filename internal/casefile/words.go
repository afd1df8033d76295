package casefile

import (
	"fmt"
	"strconv"
	"strings"
)

// A Word is "key" or "key=value"; the value may be quoted.
type Word struct {
	Key, Value string
	HasValue   bool // distinguishes "key=" from "key"
}

// String returns the word as written in a file.
func (w Word) String() string {
	if !w.HasValue {
		return w.Key
	}
	if w.Value == "" || strings.ContainsAny(w.Value, " \"\\") {
		return w.Key + "=" + strconv.Quote(w.Value)
	}
	return w.Key + "=" + w.Value
}

// ParseWords splits a line at unquoted blanks.
func ParseWords(line string) ([]Word, error) {
	var all []Word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, "= ")
		if end < 0 || line[end] == ' ' {
			key, rest, _ := strings.Cut(line, " ")
			all, line = append(all, Word{Key: key}), rest
			continue
		}
		w := Word{Key: line[:end], HasValue: true}
		line = line[end+1:]
		if strings.HasPrefix(line, `"`) {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("%s: unterminated quote", w.Key)
			}
			w.Value, _ = strconv.Unquote(quoted)
			line = line[len(quoted):]
		} else {
			w.Value, line, _ = strings.Cut(line, " ")
		}
		all = append(all, w)
	}
	return all, nil
}

// JoinWords returns words as a line.
func JoinWords(all []Word) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = w.String()
	}
	return strings.Join(texts, " ")
}

// KeyValue returns the word "key=value".
func KeyValue(key, value string) Word { return Word{Key: key, Value: value, HasValue: true} }
