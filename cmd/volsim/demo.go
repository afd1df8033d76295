package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

var errInterrupted = errors.New("interrupted; everything was taken away again")

// stepTimeout is how long the demo waits for one step before it gives up.
const stepTimeout = time.Minute

// The names of the demo's objects.
const (
	namespace = "default"
	claimName = "data"
	podName   = "web"
	fileName  = "greeting.txt"
)

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
		Short: "Watch a volume live and die",
		Long: "demo runs a small cluster in this process and shows the life of one volume: a claim is provisioned and\n" +
			"bound, a pod on node-1 gets the volume and a file is written, the pod comes back on node-2 and finds the\n" +
			"file, and everything is deleted. Where it runs as root on Linux with the usual tools, the volume is a real\n" +
			"ext4 file system on a real loop device; elsewhere it is in memory. With --devices=lvm it is a logical volume in\n" +
			"a volume group of node-1's own, and the pod can come back there only. Nothing is left behind, also after Ctrl-C.\n\n" + pictureHelp,
		Example: "  volsim demo\n  volsim demo --devices=lvm\n  volsim demo --devices=array --slow\n  volsim demo --json | jq .words\n  volsim demo --svg demo.svg",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd, o) },
	}
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "what the volume is made of: auto, loop, lvm or array")
	cmd.Flags().StringVar(&o.dir, "dir", "", "with loop or lvm devices: an existing directory for the backing files and mounts (default a temporary one)")
	cmd.Flags().BoolVar(&o.slow, "slow", false, "pace the output for an audience")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one event a line, as JSON")
	o.picture.addFlags(cmd)
	return cmd
}

func demo(ctx context.Context, cmd *cobra.Command, o demoOptions) (err error) {
	ignoreSIGPIPE()
	if err := o.picture.validate(cmd); err != nil {
		return err
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Devices(o.devices), Dir: o.dir})
	if err != nil {
		return err
	}
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
		case closeErr != nil:
			err = errors.Join(err, closeErr)
		case ctx.Err() != nil:
			err = errInterrupted
		}
	}()
	c.Trace().Watch(s.out.record)
	c.Trace().Watch(s.watchFailures)
	err = s.run(ctx)
	if ctx.Err() == nil {
		what := picture.Options{Title: "The life of a volume", After: s.setupEnd}
		err = errors.Join(err, o.picture.draw(cmd.OutOrStdout(), c.Trace().Records(), what))
	}
	return err
}

// demoRun is one run of the demo.
type demoRun struct {
	cluster  *cluster.Cluster
	out      *narrator
	setupEnd int        // the step of the trace at which the cluster had started
	failed   chan error // the first failure that waiting will not mend
}

// watchFailures notices a driver that has no room: it would try for ever.
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
	s.out.chapter(fmt.Sprintf("A cluster of two nodes; volumes are %s", why))
	for _, step := range s.chapters(kind) {
		if step.title != "" {
			s.out.chapter(step.title)
		}
		if err := s.step(ctx, step.run); err != nil {
			return err
		}
		s.out.drain()
		if step.title == "" {
			s.setupEnd = s.cluster.Trace().Steps()
		}
	}
	left, err := s.cluster.Leaks()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %v", left)
	}
	s.out.end()
	s.out.summary(s.summary(kind, s.cluster.Host().Now().Sub(began)))
	return nil
}

// step runs one step, until it is done, takes too long, or cannot be done.
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
