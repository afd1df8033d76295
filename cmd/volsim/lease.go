package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// leaseOptions say how the one that acts is found.
//
// Upstream: k8s.io/component-base/config LeaderElectionConfiguration; its values, but for the name.
type leaseOptions struct {
	namespace string
	name      string
	duration  time.Duration // of the lease
	renewal   time.Duration // to renew it in
	retry     time.Duration // between two tries
}

func (o *leaseOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.namespace, "lease-namespace", "kube-system", "namespace of the Lease")
	flags.StringVar(&o.name, "lease-name", "volsim-controllers", "name of the Lease; those who run other parts hold another one")
	flags.DurationVar(&o.duration, "lease-duration", 15*time.Second, "how long others wait for a leader that is not heard of")
	flags.DurationVar(&o.renewal, "lease-renew-deadline", 10*time.Second, "how long the leader tries to renew before it stops")
	flags.DurationVar(&o.retry, "lease-retry-period", 2*time.Second, "how long to wait between two tries")
}

// lead waits for the lease, acts while it is held, and gives it up when ctx ends and acting has come to its end. It fails
// when the lease is lost.
func (o *leaseOptions) lead(ctx context.Context, cfg *clientrest.Config, told *printer, act func(ctx context.Context)) error {
	what := o.namespace + "/" + o.name
	identity, err := newIdentity()
	if err != nil {
		return err
	}
	cfg = clientrest.CopyConfig(cfg)
	cfg.QPS = -1 // the periods say how often the lease is asked for
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.namespace, o.name,
		resourcelock.ResourceLockConfig{Identity: identity}, cfg, o.renewal)
	if err != nil {
		return fmt.Errorf("lease %s: %w", what, err)
	}
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: o.duration, RenewDeadline: o.renewal, RetryPeriod: o.retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				if leader != identity {
					told.info("lease   %s is held by %s; waiting", what, leader)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", what, err)
	}
	told.info("lease   %s, as %s", what, identity)
	// The lease outlives ctx: it is given up when nobody acts any more.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	logging := klog.NewContext(electing, logr.New(&errorSink{ctx: electing, out: told, subject: "lease " + what}))
	released := make(chan struct{})
	go func() {
		defer close(released)
		elector.Run(logging)
	}()
	defer func() {
		release()
		<-released
	}()
	return whileLeading(ctx, leading, what, act)
}

// whileLeading acts from when the lease is held until ctx ends or it is lost.
func whileLeading(ctx context.Context, leading <-chan context.Context, what string, act func(ctx context.Context)) error {
	select {
	case <-ctx.Done():
		return nil
	case held := <-leading:
		acting, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(held, stop)()
		act(acting)
		if ctx.Err() == nil {
			return fmt.Errorf("lease %s was lost: another one may act now", what)
		}
		return nil
	}
}

// newIdentity is a name that nobody else has.
//
// Upstream: cmd/kube-controller-manager/app Run.
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this machine: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// errorSink tells the errors of the election; the same one again it tells once.
type errorSink struct {
	ctx     context.Context //nolint:containedctx // when it has ended, failures are no trouble
	out     *printer
	subject string
	last    string // election has one goroutine
}

var _ logr.LogSink = (*errorSink)(nil)

// Init does nothing.
func (*errorSink) Init(logr.RuntimeInfo) {}

// Enabled tells whether messages of a level are wanted: none is.
func (*errorSink) Enabled(int) bool { return false }

// Info does nothing.
func (*errorSink) Info(int, string, ...any) {}

// WithValues returns the sink as it is.
func (t *errorSink) WithValues(...any) logr.LogSink { return t }

// WithName returns the sink as it is.
func (t *errorSink) WithName(string) logr.LogSink { return t }

// Error tells an error.
func (t *errorSink) Error(err error, message string, _ ...any) {
	if text := err.Error(); t.ctx.Err() == nil && text != t.last {
		t.last = text
		t.out.warn("%s: %s: %v", t.subject, message, err)
	}
}
