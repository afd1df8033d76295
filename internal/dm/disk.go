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

// A Behaviour is how a disk treats requests.
type Behaviour struct {
	// target is the kernel's target. rest follows the backing in the table line; the error target
	// has no backing.
	target, rest string
}

// Healthy returns a behaviour that forwards all requests.
func Healthy() Behaviour { return Behaviour{target: "linear"} }

// FailsAll returns a behaviour that fails all requests with EIO. Data in the kernel's cache remains
// readable.
func FailsAll() Behaviour { return Behaviour{target: "error"} }

// FailsWrites returns a behaviour that fails writes with EIO and forwards reads.
func FailsWrites() Behaviour { return Behaviour{target: "flakey", rest: alwaysDown + "1 error_writes"} }

// DropsWrites returns a behaviour that confirms writes and flushes without executing them, like a
// disk that loses its cache.
func DropsWrites() Behaviour { return Behaviour{target: "flakey", rest: alwaysDown + "1 drop_writes"} }

// Slow returns a behaviour that delays requests, in whole milliseconds. Flushes take as long as
// writes.
func Slow(read, write time.Duration) Behaviour {
	return Behaviour{target: "delay", rest: fmt.Sprintf(" %d %%[1]s 0 %d", read.Milliseconds(), write.Milliseconds())}
}

// alwaysDown are flakey's intervals: zero seconds up, one second down.
const alwaysDown = " 0 1 "

// line returns the table of a disk, a single target.
func (b Behaviour) line(sectors int64, backing string) string {
	if b.target == "error" {
		return fmt.Sprintf("0 %d error", sectors)
	}
	return fmt.Sprintf("0 %d %s %s 0%s", sectors, b.target, backing, strings.ReplaceAll(b.rest, "%[1]s", backing))
}

// A Disk is a device in front of another. Its methods must not be called concurrently.
type Disk struct {
	name    string
	backing string
	sectors int64
}

// ErrUnavailable reports that this machine has no usable device-mapper. The message says what is
// missing.
var ErrUnavailable = errors.New("no device-mapper")

// Probe returns nil if disks can be created here, otherwise an ErrUnavailable that says what is
// missing.
func Probe() error {
	const how = "run the test in a guest, for example with 'make test-dm'"
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: root required; %s", ErrUnavailable, how)
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

// NewDisk creates a healthy disk in front of a device, with the same size. The name must be unique
// in the machine's device-mapper.
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

// Device returns the disk's device node.
func (d *Disk) Device() string { return "/dev/mapper/" + d.name }

// SetBehaviour changes the behaviour of the disk. Requests in flight complete as before; requests
// that a slow disk delays complete at once. File systems on the disk are not frozen.
func (d *Disk) SetBehaviour(ctx context.Context, b Behaviour) error {
	// Load the new table first, so that an invalid one cannot leave the disk suspended.
	if _, err := command(ctx, "dmsetup", "load", d.name, "--table", b.line(d.sectors, d.backing)); err != nil {
		return err
	}
	// Resume suspends, switches tables and resumes in one kernel request.
	_, err := command(ctx, "dmsetup", "resume", "--nolockfs", "--noflush", d.name)
	return err
}

// Remove removes the disk; its backing is unchanged. It returns an error while the disk is open.
func (d *Disk) Remove(ctx context.Context) error {
	_, err := command(ctx, "dmsetup", "remove", d.name)
	return err
}

// command runs a program and returns its standard output. The error contains its standard error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	output, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(output), nil
}
