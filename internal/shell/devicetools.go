package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/volsim/volsim/plugins/nodefs"
)

// deviceTools copy blocks.
var deviceTools = map[string]func(p *proc) int{"dd": toolDd, "blockdev": toolBlockdev}

// toolDd copies blocks.
func toolDd(p *proc) int {
	values := map[string]string{
		"bs": "512", "count": "", "seek": "0", "skip": "0", "if": "", "of": "",
		"conv": "", "status": "", "ibs": "", "obs": "", "oflag": "", "iflag": "",
	}
	for _, arg := range p.args {
		name, value, ok := strings.Cut(arg, "=")
		if _, known := values[name]; !known || !ok {
			return p.fail("invalid argument '%s'", arg)
		}
		values[name] = value
	}
	if values["ibs"] != "" {
		values["bs"] = values["ibs"]
	}
	number := func(name string) int64 {
		n, err := count(values[name])
		if err != nil || n < 0 {
			p.fail("invalid number '%s'", values[name])
		}
		return n
	}
	size, limit, skip, seek := number("bs"), int64(-1), number("skip"), number("seek")
	if values["count"] != "" {
		limit = number("count")
	}
	if size == 0 {
		return p.fail("number 0 is not in 1..2147483647 range")
	}
	in, out := p.s.fds.get(0), p.s.fds.get(1)
	truncate := seek == 0 && !strings.Contains(values["conv"], "notrunc")
	for _, file := range []struct {
		name  string
		h     **handle
		flags openFlags
	}{
		{values["if"], &in, openFlags{read: true}},
		{values["of"], &out, openFlags{
			write: true, create: !strings.Contains(values["conv"], "nocreat"),
			truncate:  truncate && !strings.Contains(values["oflag"], "append"),
			appending: strings.Contains(values["oflag"], "append"),
		}},
	} {
		if file.name == "" {
			continue
		}
		h, err := p.s.open(file.name, file.flags)
		if err != nil {
			return p.fail("can't open '%s': %s", file.name, errorText(err))
		}
		h.refs++
		*file.h = h
	}
	if in == nil || out == nil {
		return p.fail("%s", errorText(syscall.EBADF))
	}
	d := copier{p: p, in: in, out: out, size: size, limit: limit, inName: values["if"], outName: values["of"]}
	code, unwinding := frame(func() int { return d.run(skip, seek, strings.Contains(values["iflag"], "count_bytes")) })
	if values["if"] != "" {
		in.release(p.s.t)
	}
	if values["of"] != "" {
		out.release(p.s.t)
	}
	if unwinding != nil {
		panic(unwinding)
	}
	if values["status"] != "none" {
		d.report(values["status"] != "noxfer")
	}
	return code
}

// A copier copies blocks for dd.
type copier struct {
	p                         *proc
	in, out                   *handle
	inName, outName           string
	size, limit               int64
	inFull, inPart            int64
	outFull, outPart, written int64
	began                     time.Time
}

func (d *copier) run(skip, seek int64, inBytes bool) int {
	t := d.p.s.t
	d.began = t.now()
	bytesLeft := int64(-1)
	if inBytes {
		bytesLeft, d.limit = d.limit, -1
	}
	if f, ok := d.out.stream.(*fileStream); ok {
		f.offset += seek * d.size
	}
	if f, ok := d.in.stream.(*fileStream); ok {
		f.offset += skip * d.size
	} else {
		_, _ = io.CopyN(io.Discard, d.p.reader(d.in), skip*d.size)
	}
	zeros := isZero(d.in) && isFile(d.out)
	var block []byte
	if !zeros {
		block = make([]byte, d.size)
	}
	for d.limit < 0 || d.inFull+d.inPart < d.limit {
		if zeros && d.limit >= 0 {
			d.out.stream.(*fileStream).writeZeros(d.size * d.limit)
			d.inFull, d.outFull, d.written = d.limit, d.limit, d.size*d.limit
			break
		}
		if zeros { // without a limit the file system becomes full
			block = make([]byte, d.size)
			zeros = false
		}
		part := block
		if bytesLeft >= 0 {
			part = block[:min(int64(len(block)), bytesLeft)]
			if len(part) == 0 {
				break
			}
		}
		n, err := d.in.read(t, part)
		bytesLeft -= int64(n)
		if n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				d.p.errorf("error reading '%s': %s", d.inName, errorText(err))
			}
			break
		}
		d.countBlock(&d.inFull, &d.inPart, n)
		if _, err := d.out.write(t, part[:n]); err != nil {
			d.p.errorf("error writing '%s': %s", d.outName, errorText(err))
			return 1
		}
		d.countBlock(&d.outFull, &d.outPart, n)
		d.written += int64(n)
		t.tick()
	}
	if f, ok := d.out.stream.(*fileStream); ok {
		if err := f.flush(t); err != nil {
			d.p.errorf("error writing '%s': %s", d.outName, errorText(err))
			return 1
		}
	}
	return d.p.code
}

func (d *copier) countBlock(full, part *int64, n int) {
	if int64(n) == d.size {
		*full++
	} else {
		*part++
	}
}

// report writes the statistics to stderr.
func (d *copier) report(transfer bool) {
	p := d.p
	text := []string{
		fmt.Sprintf("%d+%d records in", d.inFull, d.inPart),
		fmt.Sprintf("%d+%d records out", d.outFull, d.outPart),
	}
	if transfer {
		seconds := max(p.s.t.now().Sub(d.began).Seconds(), 0.001)
		text = append(text, fmt.Sprintf("%d bytes (%sB) copied, %.6f seconds, %sB/s", d.written, human(d.written), seconds,
			human(int64(float64(d.written)/seconds))))
	}
	for _, line := range text {
		p.warn(line)
	}
}

func isZero(h *handle) bool {
	_, is := h.stream.(zeroStream)
	return is
}

func isFile(h *handle) bool {
	_, is := h.stream.(*fileStream)
	return is
}

func toolBlockdev(p *proc) int {
	if len(p.args) != 2 || p.args[0] != "--getsize64" && p.args[0] != "--getsz" && p.args[0] != "--getss" {
		return p.fail("only --getsize64, --getsz and --getss are supported by the simulated tool")
	}
	var size int64
	err := p.s.at("capacity", p.args[1], true, func(disk nodefs.FS, here place) (err error) {
		switch {
		case !here.exists:
			return fs.ErrNotExist
		case !here.device:
			return syscall.ENOTTY
		}
		size, err = disk.Capacity(here.node)
		return err
	})
	if err != nil {
		return p.fail("%s: %s", p.args[1], errorText(err))
	}
	switch p.args[0] {
	case "--getsz":
		size /= 512
	case "--getss":
		size = 512
	}
	p.printf("%d\n", size)
	return 0
}
