package ctrlruntime_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/ctrlruntime"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
)

// A PasswordReconciler creates a Secret for each ConfigMap, unless it sees one.
type PasswordReconciler struct{ client.Client }

// SetupWithManager adds the controller, as kubebuilder writes it.
func (r *PasswordReconciler) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *PasswordReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var secrets corev1.SecretList
	if err := r.List(ctx, &secrets, client.InNamespace(request.Namespace)); err != nil || len(secrets.Items) > 0 {
		return reconcile.Result{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, GenerateName: request.Name + "-"}}
	return reconcile.Result{}, r.Create(ctx, secret)
}

// An operator is searched for races, unchanged: a user changes its object twice, and the second
// reconcile reads a cache that lacks the Secret of the first.
func Example() {
	operator := ctrlruntime.Component(ctrlruntime.Config{
		Name:  "operator",
		Setup: func(mgr manager.Manager) error { return (&PasswordReconciler{mgr.GetClient()}).SetupWithManager(mgr) },
	})
	user := func(ctx context.Context, c *cluster.Cluster) error {
		configs := c.Client().CoreV1().ConfigMaps("default")
		config, err := configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		config.Data = map[string]string{"user": "admin"}
		_, err = configs.Update(ctx, config, metav1.UpdateOptions{})
		return err
	}
	world := &scenario.Scenario{
		Name: "passwords", Components: []string{}, Extra: []cluster.Component{operator}, OwnRules: []invariant.Rule{onePassword},
		Users: []scenario.User{{Name: "user", Script: user}}, OutcomesDiffer: true,
	}
	report, err := explore.Search(context.Background(), world, explore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	failure := report.Failure.Scenario
	fmt.Printf("%s: %s\n", failure.Violates, failure.Schedule)
	// Output: one-password: 6 hold: operator/cache secrets
}

// onePassword forbids two Secrets.
var onePassword = invariant.Rule{ID: "one-password", Forbids: "a second Secret", Begin: func(invariant.World) invariant.Checks {
	secrets := 0
	return invariant.Checks{Commit: func(e fake.Commit) error {
		if e.Resource == "secrets" && e.Type == watch.Added {
			secrets++
		}
		if secrets > 1 {
			return fmt.Errorf("%d secrets", secrets)
		}
		return nil
	}}
}}

// A bare reconcile.Reconciler needs a Setup of one line.
func ExampleComponent_reconciler() {
	reconciler := func(c client.Client) reconcile.Reconciler {
		return reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			kind, err := apiutil.GVKForObject(&corev1.Secret{}, c.Scheme())
			fmt.Println("reconcile", kind.Kind, request.Name)
			return reconcile.Result{}, err
		})
	}
	operator := ctrlruntime.Component(ctrlruntime.Config{Name: "operator", Setup: func(mgr manager.Manager) error {
		return builder.ControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(reconciler(mgr.GetClient()))
	}})
	s := &scenario.Scenario{
		Name: "one secret", Components: []string{}, Extra: []cluster.Component{operator},
		Users: []scenario.User{{Name: "user", Script: func(ctx context.Context, c *cluster.Cluster) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			_, err := c.Client().CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{})
			return err
		}}},
	}
	if _, err := s.Run(context.Background(), scenario.Options{}); err != nil {
		log.Fatal(err)
	}
	// Output: reconcile Secret a
}
