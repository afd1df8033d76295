package dm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Behaviour is what a disk does with what is asked of it.
type Behaviour struct {
	// target is the kernel's target, and what follows the backing in its line; error has no backing.
	target, rest string
}

// Healthy passes everything on.
func Healthy() Behaviour { return Behaviour{target: "linear"} }

// FailsAll fails all that is asked, with EIO. What the kernel has in its cache can still be read.
func FailsAll() Behaviour { return Behaviour{target: "error"} }

// FailsWrites fails writes with EIO, and reads well.
func FailsWrites() Behaviour { return Behaviour{target: "flakey", rest: alwaysDown + "1 error_writes"} }

// DropsWrites says that it wrote, also of a flush, and did not: a disk whose cache was lost.
func DropsWrites() Behaviour { return Behaviour{target: "flakey", rest: alwaysDown + "1 drop_writes"} }

// Slow passes everything on, after a while, in whole milliseconds. Flushes take as long as writes.
func Slow(read, write time.Duration) Behaviour {
	return Behaviour{target: "delay", rest: fmt.Sprintf(" %d %%[1]s 0 %d", read.Milliseconds(), write.Milliseconds())}
}

// alwaysDown are flakey's intervals: never up, and down again as soon as it was down.
const alwaysDown = " 0 1 "

// line is the table of a disk: one target, from its beginning to its end.
func (b Behaviour) line(sectors int64, backing string) string {
	if b.target == "error" {
		return fmt.Sprintf("0 %d error", sectors)
	}
	return fmt.Sprintf("0 %d %s %s 0%s", sectors, b.target, backing, strings.ReplaceAll(b.rest, "%[1]s", backing))
}

// Disk is a device that stands before another. Its methods must not be called concurrently.
type Disk struct {
	name    string
	backing string
	sectors int64
}

// ErrUnavailable says that there is no device-mapper here, and how to get one.
var ErrUnavailable = errors.New("no device-mapper here")

// Probe gives nil if disks can be made here, or an ErrMissing that says what it takes.
func Probe() error {
	const how = "run the test in a guest, as 'make test-dm' does"
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes root; %s", ErrUnavailable, how)
	}
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w; %s", ErrUnavailable, err, how)
	}
	if err := control.Close(); err != nil {
		return err
	}
	if _, err := exec.LookPath("dmsetup"); err != nil {
		return fmt.Errorf("%w: %w: install the package dmsetup", ErrUnavailable, err)
	}
	return nil
}

// NewDisk makes a healthy disk before a device, as large as that. The name is one that no other device of the machine's
// device-mapper has.
func NewDisk(ctx context.Context, name, backing string) (*Disk, error) {
	size, err := command(ctx, "blockdev", "--getsz", backing)
	if err != nil {
		return nil, err
	}
	d := &Disk{name: name, backing: backing}
	if d.sectors, err = strconv.ParseInt(strings.TrimSpace(size), 10, 64); err != nil {
		return nil, fmt.Errorf("size of %s: %w", backing, err)
	}
	_, err = command(ctx, "dmsetup", "create", name, "--table", Healthy().line(d.sectors, backing))
	return d, err
}

// Device is the disk's device node.
func (d *Disk) Device() string { return "/dev/mapper/" + d.name }

// SetBehaviour makes the disk behave differently from now on. Requests that are under way end as before, but for those that a slow
// disk still holds back: they end at once. A file system on the disk is not asked to come to rest.
func (d *Disk) SetBehaviour(ctx context.Context, b Behaviour) error {
	// The new table is loaded first, so that the disk is never left suspended for want of one.
	if _, err := command(ctx, "dmsetup", "load", d.name, "--table", b.line(d.sectors, d.backing)); err != nil {
		return err
	}
	// Resuming suspends, changes tables and resumes, in one request of the kernel.
	_, err := command(ctx, "dmsetup", "resume", "--nolockfs", "--noflush", d.name)
	return err
}

// Remove takes the disk away; its backing stays as it is. It fails while anybody has the disk open.
func (d *Disk) Remove(ctx context.Context) error {
	_, err := command(ctx, "dmsetup", "remove", d.name)
	return err
}

// command runs a program and returns what it wrote. What it said besides is in the error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var said strings.Builder
	c.Stderr = &said
	output, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return string(output), nil
}
