package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/trace"
	"github.com/volsim/volsim/trace/picture"
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
			"ext4 file system on a real loop device; elsewhere it is in memory. Nothing is left behind, also after Ctrl-C.\n\n" + pictureHelp,
		Example: "  volsim demo\n  volsim demo --devices=array --slow\n  volsim demo --json | jq .words\n  volsim demo --svg demo.svg",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd, o) },
	}
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "what the volume is made of: auto, loop or array")
	cmd.Flags().StringVar(&o.dir, "dir", "", "with loop devices: an existing directory for the backing files and mounts (default a temporary one)")
	cmd.Flags().BoolVar(&o.slow, "slow", false, "pace the output for an audience")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one event a line, as JSON")
	o.picture.flags(cmd)
	return cmd
}

func demo(ctx context.Context, cmd *cobra.Command, o demoOptions) (err error) {
	if err := o.picture.check(cmd); err != nil {
		return err
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Devices(o.devices), Dir: o.dir})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.picture.alone() {
		out = io.Discard
	}
	s := &show{cluster: c, out: newNarrator(ctx, out, o.json, o.slow), failed: make(chan error, 1)}
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
	c.Trace().Watch(s.look)
	err = s.run(ctx)
	if ctx.Err() == nil {
		what := picture.Options{Title: "The life of a volume", After: s.began}
		err = errors.Join(err, o.picture.draw(cmd.OutOrStdout(), c.Trace().Records(), what))
	}
	return err
}

// show is one run of the demo.
type show struct {
	cluster *cluster.Cluster
	out     *narrator
	began   int        // the step of the trace at which the cluster had started
	failed  chan error // the first failure that waiting will not mend
}

// look notices a driver that has no room: it would try for ever.
func (s *show) look(r trace.Record) {
	if r.Kind != trace.KindDriver || status.Code(r.Err) != codes.ResourceExhausted {
		return
	}
	select {
	case s.failed <- errors.New(status.Convert(r.Err).Message()):
	default:
	}
}

func (s *show) run(ctx context.Context) error {
	began := s.cluster.Host().Now()
	kind, why := s.cluster.Devices()
	s.out.chapter(fmt.Sprintf("A cluster of two nodes; volumes are %s", why))
	steps := []struct {
		title string
		do    func(ctx context.Context) error
	}{
		{"", s.cluster.Start},
		{"A claim is provisioned and bound", s.claim},
		{"A pod uses it on node-1", s.firstPod},
		{"The pod comes back on node-2", s.secondPod},
		{"Pod, claim and volume go", s.remove},
	}
	for _, step := range steps {
		if step.title != "" {
			s.out.chapter(step.title)
		}
		if err := s.step(ctx, step.do); err != nil {
			return err
		}
		s.out.drain()
		if step.title == "" {
			s.began = s.cluster.Trace().Steps()
		}
	}
	left, err := s.cluster.Left()
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
func (s *show) step(ctx context.Context, do func(ctx context.Context) error) error {
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

func (s *show) claim(ctx context.Context) error {
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	if _, err := claims.Create(ctx, cluster.NewClaim(claimName, "64Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForClaim(ctx, namespace, claimName, corev1.ClaimBound)
}

var greeting = []byte("Written on node-1, through the pod's own path.\n")

func (s *show) firstPod(ctx context.Context) error {
	if err := s.startPod(ctx); err != nil {
		return err
	}
	if err := s.cluster.WriteFile(namespace, podName, claimName, fileName, greeting); err != nil {
		return err
	}
	path, err := s.cluster.MountPath(namespace, podName, claimName)
	if err != nil {
		return err
	}
	s.out.say("web", fmt.Sprintf("writes %d bytes to %s/%s", len(greeting), path, fileName))
	return nil
}

func (s *show) startPod(ctx context.Context) error {
	pods := s.cluster.Client().CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, cluster.NewPod(podName, claimName), metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForPod(ctx, namespace, podName, corev1.PodRunning)
}

func (s *show) secondPod(ctx context.Context) error {
	nodes := s.cluster.Client().CoreV1().Nodes()
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := nodes.Patch(ctx, "node-1", types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	if err := s.startPod(ctx); err != nil {
		return err
	}
	found, err := s.cluster.ReadFile(namespace, podName, claimName, fileName)
	if err != nil {
		return err
	}
	if !bytes.Equal(found, greeting) {
		return fmt.Errorf("the file has changed: %q", found)
	}
	s.out.say("web", fmt.Sprintf("finds %s with the same %d bytes", fileName, len(found)))
	return nil
}

func (s *show) stopPod(ctx context.Context) error {
	if err := s.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, podName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForGone(ctx, "pods", namespace, podName)
}

func (s *show) remove(ctx context.Context) error {
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	if err := claims.Delete(ctx, claimName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.cluster.WaitForGone(ctx, "persistentvolumeclaims", namespace, claimName); err != nil {
		return err
	}
	return s.cluster.WaitForRest(ctx)
}
