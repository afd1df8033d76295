package leaderelection

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim"
)

// The default periods.
//
// Upstream: csi-lib-utils standardflags (0.24).
const (
	leaseDurationDefault = 15 * time.Second
	renewDeadlineDefault = 10 * time.Second
	retryPeriodDefault   = 5 * time.Second
)

// Config configures Run.
type Config struct {
	Process  *sim.Process
	Client   kubernetes.Interface
	Recorder record.EventRecorder // of events about the Lease
	// Namespace and Name are those of the Lease. Each character of Name that a Lease cannot have becomes "-".
	Namespace, Name string
	Identity        string // of this candidate
	// Zero durations are the defaults of the CSI sidecars: 15, 10 and 5 seconds.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	Started func() // is called once, when this candidate becomes the leader
	Stopped func() // is called once, when it is no longer: the process must end
}

// An elector is a candidate.
type elector struct {
	Config
	key        string
	candidacy  *sim.Queue[string] // until it leads
	renewals   *sim.Queue[string] // while it leads
	observed   coordinationv1.LeaseSpec
	observedAt time.Time             // when the Lease was seen to change
	held       *coordinationv1.Lease // as this candidate has written it last; nil: never
	renewedAt  time.Time
}

// Run makes the process a candidate.
func Run(cfg Config) {
	cfg.LeaseDuration = cmp.Or(cfg.LeaseDuration, leaseDurationDefault)
	cfg.RenewDeadline = cmp.Or(cfg.RenewDeadline, renewDeadlineDefault)
	cfg.RetryPeriod = cmp.Or(cfg.RetryPeriod, retryPeriodDefault)
	cfg.Name, cfg.Identity = sanitized(cfg.Name), sanitized(cfg.Identity)
	e := &elector{Config: cfg, key: cfg.Namespace + "/" + cfg.Name}
	e.renewals = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "leader lease", Heartbeat: true})
	e.renewals.Work(func(ctx context.Context, _ string) error {
		e.renew(ctx)
		return nil
	})
	e.candidacy = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "leader candidacy", Watchdog: true})
	e.candidacy.Work(func(ctx context.Context, _ string) error {
		e.apply(ctx)
		return nil
	})
	e.candidacy.Add(e.key)
}

// forbidden are the characters that a name cannot have.
var forbidden = regexp.MustCompile("[^a-zA-Z0-9-]")

// sanitized returns a name that a Lease can have.
//
// Upstream: csi-lib-utils leaderelection sanitizeName (0.24).
func sanitized(name string) string {
	name = forbidden.ReplaceAllString(name, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// apply tries to become the leader.
//
// Upstream: client-go tools/leaderelection LeaderElector.acquire (v0.36).
func (e *elector) apply(ctx context.Context) {
	if !e.take(ctx) {
		e.candidacy.AddAfter(e.key, e.RetryPeriod)
		return
	}
	e.event("became leader")
	e.renewals.AddAfter(e.key, e.RetryPeriod)
	_ = e.Process.SetUp(func() error {
		e.Started()
		return nil
	})
}

// renew renews the Lease, or stops leading.
//
// Upstream: client-go tools/leaderelection LeaderElector.renew (v0.36).
func (e *elector) renew(ctx context.Context) {
	if !e.take(ctx) && e.Process.Now().Sub(e.renewedAt) >= e.RenewDeadline {
		e.event("stopped leading")
		e.Stopped()
		return
	}
	e.renewals.AddAfter(e.key, e.RetryPeriod)
}

// take takes or renews the Lease, and reports whether this candidate has it. Any error counts as no. The holder
// first updates the version that it wrote last, and reads only if that fails.
//
// Upstream: client-go tools/leaderelection LeaderElector.tryAcquireOrRenew (v0.36).
func (e *elector) take(ctx context.Context) bool {
	now := e.Process.Now()
	if e.held != nil && e.isValid(now) && e.write(ctx, e.held, now) {
		return true
	}
	leases := e.Client.CoordinationV1().Leases(e.Namespace)
	stored, err := leases.Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Spec: e.record(now)}
		stored, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return e.holds(stored, err, now)
	}
	if err != nil {
		return false
	}
	e.observe(stored, now)
	if holder := ptr.Deref(stored.Spec.HolderIdentity, ""); holder != "" && holder != e.Identity && e.isValid(now) {
		return false
	}
	return e.write(ctx, stored, now)
}

// write writes the Lease for this candidate, and reports whether that succeeded. stored is read-only.
func (e *elector) write(ctx context.Context, stored *coordinationv1.Lease, now time.Time) bool {
	lease := stored.DeepCopy()
	lease.Spec = e.record(now)
	lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(stored.Spec.LeaseTransitions, 0))
	if ptr.Deref(stored.Spec.HolderIdentity, "") == e.Identity {
		lease.Spec.AcquireTime = stored.Spec.AcquireTime
	} else {
		*lease.Spec.LeaseTransitions++
	}
	written, err := e.Client.CoordinationV1().Leases(e.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	return e.holds(written, err, now)
}

// holds notes the result of a write that makes this candidate the holder.
func (e *elector) holds(written *coordinationv1.Lease, err error, now time.Time) bool {
	if err != nil {
		return false
	}
	e.observe(written, now)
	e.held, e.renewedAt = written, now
	return true
}

// isValid reports whether the Lease, as observed, has not expired.
//
// Upstream: client-go tools/leaderelection LeaderElector.isLeaseValid (v0.36).
func (e *elector) isValid(now time.Time) bool {
	duration := time.Duration(ptr.Deref(e.observed.LeaseDurationSeconds, 0)) * time.Second
	return e.observedAt.Add(duration).After(now)
}

// record returns a Lease that this candidate has taken now.
func (e *elector) record(now time.Time) coordinationv1.LeaseSpec {
	at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
	return coordinationv1.LeaseSpec{
		HolderIdentity: &e.Identity, LeaseDurationSeconds: ptr.To(int32(e.LeaseDuration / time.Second)),
		AcquireTime: &at, RenewTime: &at, LeaseTransitions: ptr.To(int32(0)),
	}
}

// observe notes when the Lease has changed.
func (e *elector) observe(lease *coordinationv1.Lease, now time.Time) {
	if e.observedAt.IsZero() || lease.Spec.String() != e.observed.String() {
		e.observed, e.observedAt = lease.Spec, now
	}
}

// event records an event about the Lease.
//
// Upstream: client-go tools/leaderelection/resourcelock LeaseLock.RecordEvent (v0.36).
func (e *elector) event(what string) {
	e.Recorder.Event(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: coordinationv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
	}, corev1.EventTypeNormal, "LeaderElection", e.Identity+" "+what)
}
