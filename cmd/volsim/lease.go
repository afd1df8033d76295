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

// leaseOptions configure leader election.
//
// Upstream: k8s.io/component-base/config LeaderElectionConfiguration; same defaults, except for the
// name.
type leaseOptions struct {
	namespace string
	name      string
	duration  time.Duration // of the Lease
	renewal   time.Duration // time limit of a renewal
	retry     time.Duration // between two attempts
}

func (o *leaseOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.namespace, "lease-namespace", "kube-system", "namespace of the Lease")
	flags.StringVar(&o.name, "lease-name", "volsim-controllers", "name of the Lease; use another name for another set of components")
	flags.DurationVar(&o.duration, "lease-duration", 15*time.Second, "how long candidates wait for a leader that does not renew")
	flags.DurationVar(&o.renewal, "lease-renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	flags.DurationVar(&o.retry, "lease-retry-period", 2*time.Second, "interval between attempts")
}

// lead waits for the Lease and calls act while holding it. When ctx ends it waits for act to return
// and releases the Lease. It returns an error if the Lease is lost.
func (o *leaseOptions) lead(ctx context.Context, cfg *clientrest.Config, p *printer, act func(ctx context.Context)) error {
	what := o.namespace + "/" + o.name
	identity, err := newIdentity()
	if err != nil {
		return err
	}
	cfg = clientrest.CopyConfig(cfg)
	cfg.QPS = -1 // the periods limit the rate of requests
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
					p.info("lease       %s is held by %s; waiting", what, leader)
				}
			},
		},
	})
	if err != nil { // invalid durations
		return usage(fmt.Errorf("lease %s: %w", what, err))
	}
	p.info("lease       %s, as %s", what, identity)
	// The Lease outlives ctx: it is released after act has returned.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	logging := klog.NewContext(electing, logr.New(&errorSink{ctx: electing, out: p, subject: "lease " + what}))
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

// whileLeading calls act once the Lease is held. The context of act ends with ctx and with the
// Lease.
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
			return fmt.Errorf("lease %s is lost: another process may act now", what)
		}
		return nil
	}
}

// newIdentity returns a unique name for this process.
//
// Upstream: cmd/kube-controller-manager/app Run.
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// An errorSink is a log sink that prints the errors of leader election. It omits repetitions of the
// same error.
type errorSink struct {
	ctx     context.Context //nolint:containedctx // errors after its end are expected
	out     *printer
	subject string
	last    string // leader election runs on one goroutine
}

var _ logr.LogSink = (*errorSink)(nil)

// Init does nothing.
func (*errorSink) Init(logr.RuntimeInfo) {}

// Enabled reports whether messages of a level are logged. None is.
func (*errorSink) Enabled(int) bool { return false }

// Info does nothing.
func (*errorSink) Info(int, string, ...any) {}

// WithValues returns the sink unchanged.
func (t *errorSink) WithValues(...any) logr.LogSink { return t }

// WithName returns the sink unchanged.
func (t *errorSink) WithName(string) logr.LogSink { return t }

// Error prints an error.
func (t *errorSink) Error(err error, message string, _ ...any) {
	if text := err.Error(); t.ctx.Err() == nil && text != t.last {
		t.last = text
		t.out.warn("%s: %s: %v", t.subject, message, err)
	}
}
