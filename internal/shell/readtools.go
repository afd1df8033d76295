package shell

import (
	"bytes"
	"crypto/md5" //nolint:gosec // as md5sum
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"
)

// readTools read files.
var readTools = map[string]func(p *proc) int{
	"cat": toolCat, "head": toolHead, "tail": toolTail, "wc": toolWc, "tee": toolTee,
	"sha256sum": toolSum, "md5sum": toolSum, "base64": toolBase64, "cmp": toolCmp, "diff": toolDiff, "od": toolOd,
}

// copyTo prints what a reader has.
func (p *proc) copyTo(r io.Reader) error {
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		p.print(string(chunk[:n]))
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

func toolCat(p *proc) int {
	_, names := p.options("u", "")
	p.withInputs(names, func(_ string, r io.Reader) error { return p.copyTo(r) })
	return p.code
}

// count parses a number of bytes or lines, with a unit.
func count(text string) (int64, error) {
	units := []struct {
		suffix string
		factor int64
	}{
		{"kB", 1000},
		{"MB", 1e6},
		{"GB", 1e9},
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"k", 1 << 10},
		{"K", 1 << 10},
		{"m", 1 << 20},
		{"M", 1 << 20},
		{"g", 1 << 30},
		{"G", 1 << 30},
		{"b", 512},
		{"c", 1},
		{"w", 2},
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			return n * u.factor, err
		}
	}
	return strconv.ParseInt(text, 10, 64)
}

// oldStyle rewrites a leading -N to -nN.
func (p *proc) oldStyle() {
	if len(p.args) > 0 && len(p.args[0]) > 1 && p.args[0][0] == '-' {
		if _, err := strconv.Atoi(p.args[0][1:]); err == nil {
			p.args[0] = "-n" + p.args[0][1:]
		}
	}
}

func toolHead(p *proc) int {
	p.oldStyle()
	options, names := p.options("qv", "nc")
	n := int64(10)
	for _, letter := range []byte("nc") {
		if text, ok := options[letter]; ok {
			var err error
			if n, err = count(text); err != nil {
				return p.fail("invalid number '%s'", text)
			}
		}
	}
	p.withInputs(names, func(name string, r io.Reader) error {
		if len(names) > 1 && !has(options, 'q') {
			p.printf("==> %s <==\n", name)
		}
		if has(options, 'c') {
			return p.copyTo(io.LimitReader(r, n))
		}
		return p.headLines(r, n)
	})
	return p.code
}

// headLines prints the first n lines, or all but the last -n.
func (p *proc) headLines(r io.Reader, n int64) error {
	if n == 0 {
		return nil
	}
	var kept []string
	left := n
	return lines(r, func(line string) bool {
		if n < 0 {
			if kept = append(kept, line); int64(len(kept)) > -n {
				p.print(kept[0])
				kept = kept[1:]
			}
			return true
		}
		p.print(line)
		left--
		return left > 0
	})
}

// followInterval is how often tail -f reads a file again.
const followInterval = time.Second

func toolTail(p *proc) int {
	p.oldStyle()
	options, names := p.options("fFqv", "ncs")
	number, from := options['n'], false
	if has(options, 'c') {
		number = options['c']
	}
	n := int64(10)
	if number != "" {
		from = number[0] == '+'
		var err error
		if n, err = count(strings.TrimLeft(number, "+-")); err != nil {
			return p.fail("invalid number '%s'", number)
		}
	}
	seen := map[string]int{}
	p.withInputs(names, func(name string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		seen[name] = len(data)
		if len(names) > 1 && !has(options, 'q') {
			p.printf("==> %s <==\n", name)
		}
		p.print(string(lastOf(data, int(n), from, has(options, 'c'))))
		return nil
	})
	for has(options, 'f') || has(options, 'F') {
		p.mustFlush()
		p.s.t.wait("growth of a file", followInterval, func() bool { return false })
		for _, name := range names {
			data, err := p.s.readFile(name)
			if err != nil || len(data) == seen[name] {
				continue
			}
			if len(data) < seen[name] {
				seen[name] = 0
			}
			p.print(string(data[seen[name]:]))
			seen[name] = len(data)
		}
	}
	return p.code
}

// lastOf returns the last n lines or bytes of data, or those from the n-th on.
func lastOf(data []byte, n int, from, inBytes bool) []byte {
	var parts [][]byte
	if inBytes {
		if from {
			return data[min(max(n-1, 0), len(data)):]
		}
		return data[max(0, len(data)-n):]
	}
	parts = bytes.SplitAfter(data, []byte("\n"))
	if len(parts[len(parts)-1]) == 0 {
		parts = parts[:len(parts)-1]
	}
	if from {
		return bytes.Join(parts[min(max(n-1, 0), len(parts)):], nil)
	}
	return bytes.Join(parts[max(0, len(parts)-n):], nil)
}

func toolWc(p *proc) int {
	options, names := p.options("lwcmL", "")
	all := len(options) == 0
	var totals [3]int
	show := func(counts [3]int, name string) {
		var columns []string
		for i, letter := range []byte("lwc") {
			if all || has(options, letter) || letter == 'c' && has(options, 'm') {
				columns = append(columns, strconv.Itoa(counts[i]))
			}
		}
		text := columns[0]
		if len(columns) > 1 || len(names) > 1 {
			text = ""
			for _, c := range columns {
				text += fmt.Sprintf("%9s ", c)
			}
			text = strings.TrimSuffix(text, " ")
		}
		if name != "-" {
			text += " " + name
		}
		p.print(text + "\n")
	}
	p.withInputs(names, func(name string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		counts := [3]int{bytes.Count(data, []byte("\n")), len(bytes.Fields(data)), len(data)}
		for i := range totals {
			totals[i] += counts[i]
		}
		show(counts, name)
		return nil
	})
	if len(names) > 1 {
		show(totals, "total")
	}
	return p.code
}

func toolTee(p *proc) int {
	options, names := p.options("ai", "")
	var handles []*handle
	for _, name := range names {
		h, err := p.s.open(name, openFlags{
			write: true, create: true, truncate: !has(options, 'a'), appending: has(options, 'a'),
		})
		if err != nil {
			p.errorf("%s: %s", name, errorText(err))
			continue
		}
		h.refs++
		handles = append(handles, h)
	}
	chunk := make([]byte, 32<<10)
	r := p.stdin()
	for {
		n, err := r.Read(chunk)
		p.print(string(chunk[:n]))
		for _, h := range handles {
			if _, err := h.write(p.s.t, chunk[:n]); err != nil {
				p.errorf("write error: %s", errorText(err))
			}
		}
		if err != nil {
			break
		}
	}
	for _, h := range handles {
		if f, ok := h.stream.(*fileStream); ok {
			if err := f.flush(p.s.t); err != nil {
				p.errorf("write error: %s", errorText(err))
			}
		}
		h.release(p.s.t)
	}
	return p.code
}

// newHash returns the hash of a tool.
func (p *proc) newHash() hash.Hash {
	if p.name == "md5sum" {
		return md5.New() //nolint:gosec // as md5sum
	}
	return sha256.New()
}

func toolSum(p *proc) int {
	options, names := p.options("csbw", "")
	if has(options, 'c') {
		return p.checkSums(names, has(options, 's'))
	}
	p.withInputs(names, func(name string, r io.Reader) error {
		sum := p.newHash()
		if _, err := io.Copy(sum, onlyReader{r}); err != nil {
			return err
		}
		p.printf("%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
		return nil
	})
	return p.code
}

type onlyReader struct{ io.Reader }

// checkSums compares files with a list of sums.
func (p *proc) checkSums(names []string, silent bool) int {
	failed, total := 0, 0
	p.withInputs(names, func(_ string, r io.Reader) error {
		var list []string
		err := lines(r, func(line string) bool { list = append(list, chomp(line)); return true })
		for _, line := range list {
			want, name, ok := strings.Cut(line, " ")
			if !ok {
				p.errorf("invalid format")
				continue
			}
			total++
			name = name[1:]
			sum := p.newHash()
			result := "FAILED"
			if p.withInput(name, func(r io.Reader) error { _, err := io.Copy(sum, onlyReader{r}); return err }) &&
				hex.EncodeToString(sum.Sum(nil)) == want {
				result = "OK"
			}
			if result != "OK" {
				failed++
			}
			if !silent {
				p.printf("%s: %s\n", name, result)
			}
		}
		return err
	})
	if failed > 0 {
		if !silent {
			p.errorf("WARNING: %d of %d computed checksums did NOT match", failed, total)
		}
		return 1
	}
	return p.code
}

func toolBase64(p *proc) int {
	options, names := p.options("d", "w")
	p.withInputs(names, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if has(options, 'd') {
			text := strings.Join(strings.Fields(string(data)), "")
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				p.errorf("truncated input")
			}
			p.print(string(decoded))
			return nil
		}
		text, width := base64.StdEncoding.EncodeToString(data), 76
		if n, err := strconv.Atoi(options['w']); err == nil {
			width = n
		}
		for width > 0 && len(text) > width {
			p.print(text[:width] + "\n")
			text = text[width:]
		}
		p.print(text)
		if width > 0 && text != "" {
			p.print("\n")
		}
		return nil
	})
	return p.code
}

// contents returns the content of two files; "-" is stdin.
func (p *proc) contents(names []string) (both [2][]byte, ok bool) {
	if len(names) != 2 {
		p.errorf("missing operand")
		return both, false
	}
	ok = true
	for i, name := range names {
		ok = p.withInput(name, func(r io.Reader) (err error) { both[i], err = io.ReadAll(r); return err }) && ok
	}
	return both, ok
}

func toolCmp(p *proc) int {
	options, names := p.options("sl", "")
	both, ok := p.contents(names)
	if !ok {
		return 2
	}
	if bytes.Equal(both[0], both[1]) {
		return 0
	}
	if has(options, 's') {
		return 1
	}
	for i := range both[0] {
		if i == len(both[1]) {
			break
		}
		if both[0][i] != both[1][i] {
			p.printf("%s %s differ: char %d, line %d\n", names[0], names[1], i+1, bytes.Count(both[0][:i], []byte("\n"))+1)
			return 1
		}
	}
	shorter := names[0]
	if len(both[1]) < len(both[0]) {
		shorter = names[1]
	}
	p.warn("cmp: EOF on " + shorter)
	return 1
}

// toolDiff compares two files. Only -q is supported: how they differ is not printed.
func toolDiff(p *proc) int {
	options, names := p.options("qurNa", "")
	both, ok := p.contents(names)
	switch {
	case !ok:
		return 2
	case bytes.Equal(both[0], both[1]):
		return 0
	case !has(options, 'q'):
		p.errorf("only -q is supported by the simulated tool")
	}
	p.printf("Files %s and %s differ\n", names[0], names[1])
	return 1
}

func toolOd(p *proc) int {
	options, names := p.options("vbcx", "AtNj")
	p.withInputs(names, func(_ string, r io.Reader) error {
		if n, err := count(options['N']); err == nil {
			r = io.LimitReader(r, n)
		}
		data, err := io.ReadAll(r)
		address := func(at int) {
			if options['A'] != "n" {
				p.printf("%07o", at)
			}
		}
		for at := 0; at < len(data); at += 16 {
			address(at)
			for _, b := range data[at:min(at+16, len(data))] {
				if strings.HasPrefix(options['t'], "u") {
					p.printf(" %3d", b)
				} else {
					p.printf(" %02x", b)
				}
			}
			p.print("\n")
		}
		if options['A'] != "n" {
			address(len(data))
			p.print("\n")
		}
		return err
	})
	return p.code
}
