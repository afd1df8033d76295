package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// ignoreEOF returns nil for the regular end of a stream, and err otherwise.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// matchResponse compares an answer with the expected one.
func (r *run) matchResponse(want expectation, got Response) error {
	answer := func(err error) error {
		text, marshal := json.Marshal(got.Body)
		if got.Body == nil {
			text = []byte(got.Text)
		}
		return errors.Join(fmt.Errorf("%w; answer: %d %s", err, got.Code, text), marshal)
	}
	message, _ := got.Body["message"].(string)
	reason, _ := got.Body["reason"].(string)
	switch {
	case want.code == 0 && !got.ok():
		return fmt.Errorf("got %d %s: %s; want success", got.Code, reason, message)
	case want.code != 0 && got.Code != want.code && !(got.Code == 0 && want.code < 300):
		return fmt.Errorf("got %d %s: %s; want %d %s: %s", got.Code, reason, message, want.code, want.reason,
			want.message)
	case want.reason != "" && got.Body != nil && reason != want.reason:
		return answer(fmt.Errorf("got reason %q, want %q", reason, want.reason))
	}
	if want.message != "" && got.Body != nil {
		if err := r.match("message", want.message, message); err != nil {
			return answer(err)
		}
	}
	body, ok := want.body.(map[string]any)
	if !ok || body == nil {
		return nil
	}
	if err := r.matchMetadata(body, got); err != nil {
		return answer(err)
	}
	body = maps.Clone(body)
	for _, k := range []string{"$warnings", "$headers", "$text"} {
		delete(body, k)
	}
	if got.Body == nil && got.Text == "" {
		if got.Code != 0 && len(body) > 0 {
			return answer(errors.New("no body"))
		}
		if r.client.Traits().HTTP {
			return nil
		}
		return r.checkNoCaptures(body)
	}
	if err := r.match("", body, got.Body); err != nil {
		return answer(err)
	}
	return nil
}

// checkNoCaptures returns an error if v captures a value, since the client does not show the
// answer.
func (r *run) checkNoCaptures(v any) error {
	text, err := json.Marshal(v)
	if err == nil && strings.Contains(string(text), `"$`) {
		return fmt.Errorf("%w: the answer is not shown", ErrUnsupported)
	}
	return err
}

// matchMetadata compares warnings, headers and text, which are not in the body.
func (r *run) matchMetadata(want map[string]any, got Response) error {
	if w, ok := want["$warnings"]; ok && r.client.Traits().HTTP {
		list := make([]any, len(got.Warnings))
		for i, text := range got.Warnings {
			list[i] = text
		}
		if err := r.match("$warnings", w, list); err != nil {
			return err
		}
	}
	if w, ok := want["$headers"].(map[string]any); ok {
		for _, k := range slices.Sorted(maps.Keys(w)) {
			var value any
			if h := got.Header.Get(k); h != "" {
				value = h
			}
			if err := r.match(k, w[k], value); err != nil {
				return err
			}
		}
	}
	if w, ok := want["$text"]; ok {
		return r.match("$text", w, got.Text)
	}
	return nil
}

// match returns an error with the path of the first value that differs. It captures unknown
// variables.
func (r *run) match(path string, want, got any) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok && (got != nil || len(w) > 0) {
			if got != nil || !allNone(w) {
				return fmt.Errorf("%s: got %s, want a map", path, brief(got))
			}
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			key, err := r.expand(k)
			if err != nil {
				return err
			}
			if err := r.match(path+"."+key, w[k], g[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		return r.matchList(path, w, got)
	case string:
		return r.matchText(path, w, got)
	case nil:
		if got != nil {
			return fmt.Errorf("%s: got %s, want none", path, brief(got))
		}
		return nil
	}
	if !reflect.DeepEqual(number(want), number(got)) {
		return fmt.Errorf("%s: got %s, want %s", path, brief(got), brief(want))
	}
	return nil
}

// allNone reports whether every value in a map is expected to be absent.
func allNone(w map[string]any) bool {
	for _, v := range w {
		if m, ok := v.(map[string]any); v != nil && (!ok || !allNone(m)) {
			return false
		}
	}
	return true
}

func (r *run) matchList(path string, want []any, got any) error {
	list, ok := got.([]any)
	if !ok && got != nil {
		return fmt.Errorf("%s: got %s, want a list", path, brief(got))
	}
	open := len(want) > 0 && want[len(want)-1] == "…"
	if open {
		want = want[:len(want)-1]
	}
	if len(list) < len(want) || len(list) > len(want) && !open {
		return fmt.Errorf("%s: got %d elements, want %d: %s", path, len(list), len(want), brief(got))
	}
	for i := range want {
		if err := r.match(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); err != nil {
			return err
		}
	}
	return nil
}

var variable = regexp.MustCompile(`\$[a-zA-Z][a-zA-Z0-9]*`)

func (r *run) matchText(path, want string, got any) error {
	if want == "…" {
		if got == nil {
			return fmt.Errorf("%s: got none, want any value", path)
		}
		return nil
	}
	if other, ok := strings.CutPrefix(want, "≠"); ok {
		if r.matchText(path, other, got) == nil {
			return fmt.Errorf("%s: got %s, want anything else", path, brief(got))
		}
		return nil
	}
	if name, ok := strings.CutPrefix(want, "$"); ok && variable.FindString(want) == want {
		captured, known := r.vars[name]
		switch {
		case !known && got == nil:
			return fmt.Errorf("%s: got none, want a value for $%s", path, name)
		case !known:
			r.vars[name] = got
			return nil
		case !reflect.DeepEqual(number(captured), number(got)):
			return fmt.Errorf("%s: got %s, want $%s, %s", path, brief(got), name, brief(captured))
		}
		return nil
	}
	text, err := r.expand(want)
	if err != nil {
		return err
	}
	if s, ok := got.(string); !ok || !matchesPattern(text, s) {
		return fmt.Errorf("%s: got %s, want %q", path, brief(got), text)
	}
	return nil
}

// matchesPattern reports whether got matches want, where "…" stands for any text.
func matchesPattern(want, got string) bool {
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return want == got
	}
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, last)
}

// expand replaces the variables in a text.
func (r *run) expand(s string) (string, error) {
	var failed error
	out := variable.ReplaceAllStringFunc(s, func(name string) string {
		v, ok := r.vars[name[1:]]
		if !ok {
			return name // such as $patch
		}
		if m, ok := v.(map[string]any); ok || v == nil {
			failed = fmt.Errorf("%s is not a string: %v", name, m)
		}
		return fmt.Sprint(v)
	})
	return out, failed
}

// substitute replaces the variables in a tree.
func (r *run) substitute(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			key, err := r.expand(k)
			if err != nil {
				return nil, err
			}
			if out[key], err = r.substitute(v[k]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = r.substitute(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok && variable.FindString(v) == v {
			if captured, known := r.vars[name]; known {
				return captured, nil
			}
		}
		return r.expand(v)
	}
	return v, nil
}

// overlay merges change into base: maps are merged, null deletes, other values replace.
func overlay(base, change any) any {
	if change == nil {
		return base
	}
	b, ok := base.(map[string]any)
	c, too := change.(map[string]any)
	if !too {
		return change
	}
	out := map[string]any{}
	if ok {
		maps.Copy(out, b)
	}
	for k, v := range c {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = overlay(out[k], v)
	}
	return out
}

func number(v any) any {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case int:
		return float64(n)
	}
	return v
}

func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
