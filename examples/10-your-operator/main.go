// # Lesson 10: test your own operator
//
// The components that you have met so far are ordinary controllers, and yours can run next to them.
// Here is a small one. It gives each database a claim for its data. It is written as operators are
// written today, it looks correct, and in the default order of events it is. Yet some databases get two
// disks. You will find out when, read why, and try the three usual remedies. This lesson is for readers
// who write Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## The operator
//
// A database should be a custom resource. To keep the lesson short, it is a ConfigMap with a size. The
// operator looks for a claim with the label of the database, and creates one if there is none. The
// fields of design are the remedies. Ignore them for now: the first operator has none of them.
type design struct {
	fixedName bool       // remedy 1
	reads     fake.Reads // remedy 2
	askServer bool       // remedy 3
}

// hasClaim looks for a claim of a database.
func hasClaim(ctx context.Context, client typedv1.CoreV1Interface, db types.NamespacedName) (bool, error) {
	claims, err := client.PersistentVolumeClaims(db.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "database=" + db.Name})
	return err == nil && len(claims.Items) > 0, err
}

// reconcile gives a database its claim. server is a client whose reads are not cached.
func (d design) reconcile(ctx context.Context, client, server typedv1.CoreV1Interface, key types.NamespacedName) error {
	db, err := client.ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if found, err := hasClaim(ctx, client, key); found || err != nil {
		return err
	}
	if d.askServer {
		if found, err := hasClaim(ctx, server, key); found || err != nil {
			return err
		}
	}
	claim := cluster.NewClaim("", db.Data["size"])
	claim.GenerateName = db.Name + "-" // the server adds five random characters
	if d.fixedName {
		claim.Name, claim.GenerateName = db.Name, ""
	}
	claim.Labels = map[string]string{"database": db.Name}
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(db, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	_, err = client.PersistentVolumeClaims(key.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if d.fixedName && apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ## A component of the world
//
// This turns it into a component. It has the shape of controller-runtime's reconcilers: it is called
// for each database that was created, changed or deleted, and again after an error. As in
// controller-runtime, its client writes to the API server, but reads from the **caches** of its
// process. A cache is a copy that the server's watch events bring up to date, one by one and late. So
// reads are fast, and cost the server nothing.
//
// (If your operator uses controller-runtime itself, the module `ctrlruntime` makes components of its
// `SetupWithManager` methods, unchanged.)
func (d design) operator() cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps", Watches: []cluster.Watch{{Resource: "persistentvolumeclaims"}}, Reads: d.reads,
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			client, server := p.Client.CoreV1(), p.WithReads(fake.ReadLive).Client.CoreV1()
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				return 0, d.reconcile(ctx, client, server, key)
			}, nil
		},
	})
}

// ## What Alice does, and what must not happen
//
// Alice creates a database and then changes a note on it. The rule is of our own: it looks at the API
// server after each change. Its error names the objects, so that stories and pictures are about them.
func alice(ctx context.Context, c *cluster.Cluster) error {
	const manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {size: 1Gi, note: %s}}"
	if err := c.Apply(ctx, fmt.Sprintf(manifest, "new")); err != nil {
		return err
	}
	return c.Apply(ctx, fmt.Sprintf(manifest, "important"))
}

var oneClaim = invariant.Rule{
	ID: "one-claim", Forbids: "two claims of one database",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(fake.Commit) error {
			var claims []string
			for _, claim := range w.API.List("persistentvolumeclaims") {
				claims = append(claims, "claim default/"+claim.GetName())
			}
			if len(claims) > 1 {
				return errors.New(strings.Join(claims, " and "))
			}
			return nil
		}}
	},
}

// search runs the world under one schedule after another. Another user, if not nil, does what the next
// part of the lesson is about.
func search(d design, another func(context.Context, *cluster.Cluster) error, cfg explore.Config) explore.Report {
	s := &scenario.Scenario{
		Name: "shop", Components: []string{}, Rules: []string{}, // nothing but the operator and the rule
		Extra: []cluster.Component{d.operator()}, OwnRules: []invariant.Rule{oneClaim}, OutcomesDiffer: true,
		Users: []scenario.User{{Name: "alice", Script: alice}},
	}
	if another != nil {
		s.Users = append(s.Users, scenario.User{Name: "admin", Script: another})
	}
	report, err := explore.Search(context.Background(), s, cfg)
	if err != nil {
		log.Fatal(err)
	}
	return report
}

var twoHolds = explore.Config{Strategy: explore.Holds, Depth: 2}

// ## The search
//
// Each schedule holds one or two tasks for a while. The search needs only a few of them. Each numbered
// line of the story is a step; `>>` marks what deviates from the default order, and "rv" is a
// resourceVersion. The picture has the same steps: each arrow is a write.
func found() {
	failure := search(design{}, nil, twoHolds).Failure
	fmt.Printf("found in schedule %d\n\n%s", failure.Schedules, scenario.Story(failure.Scenario, failure.Result))
	options := scenario.Picture(failure.Scenario, failure.Result)
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), options))
}

// ## Read the story
//
// The operator creates the claim. It does not see it yet: the cache of claims is held. Now Alice changes
// her note, and the operator is called again. It looks into the cache, finds no claim, and creates
// another one. In the default order the claim arrives in the cache first, and so it does nearly always
// in a real cluster, unless that is under load.
//
// The mistake has a name: a **double create**. The operator reads a copy of the past, and acts as if it
// were the present. There is no conflict that could stop it, since a creation overwrites nothing.
//
// How would you repair it? Think first. The rest of the lesson tries three answers.
func story() {}

// ## Three more things that happen
//
// Slow caches are not all that happens to an operator. Each remedy has to pass four searches:
//
//   - **slow caches**: the search from above.
//   - **a restart**: after the first claim the operator crashes. The new process fills its caches from a
//     list, and the list is old: it lacks the newest claim. API servers answer such lists from a cache of
//     their own.
//   - **a lost response**: a request takes effect, but the operator gets a timeout.
//   - **a second operator**: two are active for a while, as when a leader does not know yet that it
//     has been replaced.
func crash(ctx context.Context, c *cluster.Cluster) error {
	err := c.Wait(ctx, "a claim", func() bool { return c.Server().Count("persistentvolumeclaims") > 0 })
	if err == nil {
		c.Host().(*sim.Stepped).Inject("crash operator with persistentvolumeclaims 1 behind")
	}
	return err
}

func replicate(_ context.Context, c *cluster.Cluster) error {
	c.Host().(*sim.Stepped).Inject("replicate operator")
	return nil
}

var lostResponses = explore.Config{Faults: sim.FaultSpecs{{Name: "lost", Rate: 0.2}}, Count: 300}

// try makes the four searches.
func try(d design) string {
	var lines strings.Builder
	for _, one := range []struct {
		name    string
		another func(context.Context, *cluster.Cluster) error
		cfg     explore.Config
	}{
		{"slow caches", nil, twoHolds},
		{"a restart", crash, twoHolds},
		{"a lost response", nil, lostResponses},
		{"a second operator", replicate, twoHolds},
	} {
		result := "passes"
		if failure := search(d, one.another, one.cfg).Failure; failure != nil {
			result = fmt.Sprintf("two claims, found in schedule %d", failure.Schedules)
		}
		fmt.Fprintf(&lines, "%-18s %s\n", one.name+":", result)
	}
	return lines.String()
}

func none() { fmt.Print(try(design{})) }

// ## Remedy 1: a name that can be computed
//
// The claim of database `shop` is named `shop`, instead of `shop-` and five random characters. A second
// creation is refused with AlreadyExists, and the operator takes that for success. Which of the four
// searches will it pass?
func tryFixedName() { notebook.Fold("What the searches find", try(design{fixedName: true})) }

// <details><summary>What does it guarantee?</summary>
//
// There is never more than one claim, whatever the operator has read, however often it has crashed, and
// however many of it are active. The API server guarantees it, and no cache is involved. This is why the
// claims of a StatefulSet and the volumes of external-provisioner have such names.
//
// It does not guarantee that the claim is the right one. AlreadyExists says nothing about the object
// that exists. It may belong to somebody else, be left over from an earlier database of that name, or be
// about to be deleted. A careful operator reads it, compares its owner, and reports what is wrong. And
// some things have no name to compute, such as "any free one of these volumes".
//
// </details>
func fixedNameAnswer() {}

// ## Remedy 2: read your own writes
//
// The operator remembers what it has written, and after a write does not read the cache before the
// cache contains that. Controllers of Kubernetes do this with **expectations**, for example the one of
// ReplicaSets. Here it is one word: `Reads: fake.ReadYourWrites`. Which of the four will pass?
func tryReadYourWrites() {
	notebook.Fold("What the searches find", try(design{reads: fake.ReadYourWrites}))
}

// <details><summary>What does it guarantee?</summary>
//
// One process does not act twice because of its own slow caches. It costs no request.
//
// It guarantees nothing about writes that the process does not know of. The process that crashed has
// taken its memory with it. After a lost response it does not know that its write took effect. And it
// never knows what a second operator has written. So it makes double creates rare, and it is right where
// one too many does no harm: a ReplicaSet deletes a surplus pod. A surplus claim is a disk, and maybe
// data.
//
// </details>
func readYourWritesAnswer() {}

// ## Remedy 3: ask the server before you create
//
// The cache is asked first, as always. Only if it has no claim, the operator asks the API server
// itself. (In controller-runtime this is `mgr.GetAPIReader()`.) Which of the four will pass?
func tryServer() { notebook.Fold("What the searches find", try(design{askServer: true})) }

// <details><summary>What does it guarantee?</summary>
//
// No old cache misleads it, also not that of a new process, and it sees writes whose response was
// lost. The additional request is made only when something is to be created, which is seldom.
//
// But the answer is old, too, when the creation arrives: between the two requests something else may
// write. One operator with one worker for each key does not get in its own way. Two operators do. The
// PersistentVolume controller and pvc-protection read live before they delete something; what makes
// that safe are the preconditions of the deletion (a UID, a resourceVersion), and a creation has
// no other precondition than its name.
//
// </details>
func askServerAnswer() {}

// ## A question
//
// The story of the second operator and remedy 3 shows where the gap is. Before which step would the
// question to the server have helped, and why can no question close the gap?
func gap() {
	failure := search(design{askServer: true}, replicate, twoHolds).Failure
	fmt.Print(scenario.Story(failure.Scenario, failure.Result))
}

// <details><summary>Why?</summary>
//
// The first operator asks, and is held before its next request. In between the second one creates the
// claim. Any question has an answer before the creation is sent, and the world may change after the
// answer. Only the server can check and write in one step: by a name, or, for an object that exists, by
// its resourceVersion.
//
// </details>
func gapAnswer() {}

// ## Exercises
//
//  1. Combine remedies 2 and 3: `design{reads: fake.ReadYourWrites, askServer: true}`. What is gained?
//  2. Let `alice` delete the database and create it with another size. Which rule would you write, and
//     which designs break it?
//  3. Search with `Depth: 3`, and with faults and restarts together:
//     `explore.Config{Faults: …, Restarts: true, Depth: 2}`.
//  4. Put one of your own reconcilers in the place of this one.
//
// <details><summary>Answers to 1 and 2</summary>
//
// 1. The searches find what they find with remedy 3 alone: the second operator. Whatever remedy 2
// prevents, the question to the server prevents, too. It only saves some of the questions.
//
// 2. For example: at rest, each database has exactly one claim of its size (`AtRest` of
// `invariant.Checks`). All designs break it, even in the default order: the operator finds the claim of
// the earlier database, by its label or by its name, and is content. With the garbage collector
// (`Components: []string{"garbagecollector"}`) that claim is deleted a little later, as it has an owner,
// but then it is too late. The operator must compare the UID in the owner reference with the one of the
// database, wait while the old claim exists, and watch it.
//
// </details>
func exercises() {}

func main() {
	found()
	story()
	none()
	tryFixedName()
	fixedNameAnswer()
	tryReadYourWrites()
	readYourWritesAnswer()
	tryServer()
	askServerAnswer()
	gap()
	gapAnswer()
	exercises()
}
