package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/cli"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

const errInterrupted = cli.Interrupted("interrupted; all volumes, mounts and devices are removed")

// stepTimeout is the time limit of one step of the demo.
const stepTimeout = time.Minute

// The names of the demo's objects.
const (
	namespace = "default"
	claimName = "data"
	podName   = "web"
	fileName  = "greeting.txt"

	snapshotName  = "before"
	restoredClaim = "restored"
	restoredPod   = "reader"
)

// dirHelp describes the directory of a cluster on real devices.
const dirHelp = "Files and mounts of real devices are below --dir, which one run uses at a time. If a run was killed, the next one with\n" +
	"the same --dir first removes what it left; without --dir, what runs left in temporary directories. Nothing else is removed.\n\n"

type demoOptions struct {
	devices string
	dir     string
	slow    bool
	json    bool
	picture pictureOptions
}

func newDemo() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the life cycle of a volume",
		Long: "demo runs a small cluster in this process and shows the life cycle of one volume. A claim is provisioned and\n" +
			"bound. A pod on node-1 writes a file to the volume. The pod is recreated on node-2 and finds the file. A snapshot\n" +
			"keeps the file while the pod overwrites it, and is restored as a second volume. Then everything is deleted.\n" +
			"Commands are executed in the containers of the pods (shell containers), and what they print is shown.\n\n" +
			"As root on Linux, with the usual tools, the volume is a real ext4 file system on a real loop device; otherwise it\n" +
			"is kept in memory. With --devices=lvm it is a logical volume in the volume group of node-1, so the pod can only be\n" +
			"recreated there. The demo removes everything that it created, also after Ctrl-C.\n\n" + dirHelp + pictureHelp,
		Example: "  volsim demo\n  volsim demo --devices=lvm\n  volsim demo --devices=array --slow\n  volsim demo --json | jq .description\n  volsim demo --svg demo.svg",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd, o) },
	}
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "volume `backend`: auto, loop, lvm or array")
	cmd.Flags().StringVar(&o.dir, "dir", "", "existing `directory` for backing files and mounts of loop or lvm devices (default a temporary directory)")
	cmd.Flags().BoolVar(&o.slow, "slow", false, "pause after each line")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object per line")
	o.picture.addFlags(cmd)
	return cmd
}

func demo(ctx context.Context, cmd *cobra.Command, o demoOptions) (err error) {
	if err := errors.Join(o.picture.validate(cmd), devicesFlag(o.devices)); err != nil {
		return usage(err)
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Devices(o.devices), Dir: o.dir, Snapshots: true, Containers: cluster.ShellContainers})
	if err != nil {
		return err
	}
	printCleared(cmd.ErrOrStderr(), c)
	out := cmd.OutOrStdout()
	if o.picture.replacesOutput() {
		out = io.Discard
	}
	s := &demoRun{cluster: c, out: newNarrator(ctx, out, o.json, o.slow), failed: make(chan error, 1)}
	defer func() {
		s.out.end()
		closeErr := c.Close()
		s.out.close()
		switch {
		case closeErr != nil && ctx.Err() != nil:
			err = closeErr
		case ctx.Err() != nil:
			err = errInterrupted
		default:
			err = errors.Join(err, closeErr)
		}
	}()
	c.Trace().Watch(s.out.record)
	c.Trace().Watch(s.watchFailures)
	err = s.run(ctx)
	if ctx.Err() == nil {
		what := picture.Options{Title: "Life cycle of a volume", After: s.setupEnd}
		err = errors.Join(err, o.picture.draw(cmd.OutOrStdout(), c.Trace().Records(), what))
	}
	return err
}

// printCleared says what was removed of earlier runs that were killed.
func printCleared(out io.Writer, c *cluster.Cluster) {
	for _, line := range c.Cleared() {
		fmt.Fprintln(out, "volsim: "+line)
	}
}

// A demoRun is one run of the demo.
type demoRun struct {
	cluster  *cluster.Cluster
	out      *narrator
	setupEnd int        // step of the trace at which the cluster had started
	failed   chan error // the first permanent failure
}

// watchFailures reports a driver that has run out of space: it would retry indefinitely.
func (s *demoRun) watchFailures(r trace.Record) {
	if r.Kind != trace.KindDriver || status.Code(r.Err) != codes.ResourceExhausted {
		return
	}
	select {
	case s.failed <- errors.New(status.Convert(r.Err).Message()):
	default:
	}
}

func (s *demoRun) run(ctx context.Context) error {
	began := s.cluster.Host().Now()
	kind, why := s.cluster.Devices()
	for i, step := range s.chapters(kind, why) {
		s.out.chapter(step.title, step.why)
		if err := s.step(ctx, step.run); err != nil {
			return err
		}
		s.out.drain()
		if i == 0 {
			s.setupEnd = s.cluster.Trace().Steps()
		}
	}
	left, err := s.cluster.Leaks()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("leaks: %v", left)
	}
	s.out.end()
	s.out.summary(s.summary(kind, s.cluster.Host().Now().Sub(began)))
	return nil
}

// step runs one step until it succeeds, fails permanently or times out.
func (s *demoRun) step(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case err := <-s.failed:
		cancel()
		<-done
		return err
	}
}

// devicesFlag returns an error for an invalid value of --devices.
func devicesFlag(devices string) error {
	known := []cluster.Devices{cluster.Auto, cluster.Loop, cluster.LVM, cluster.Array}
	if slices.Contains(known, cluster.Devices(devices)) {
		return nil
	}
	return fmt.Errorf("invalid --devices %q: want auto, loop, lvm or array", devices)
}
