package reactors_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgo "k8s.io/client-go/testing"

	"github.com/volsim/volsim/fake/reactors"
)

func Example() {
	client := reactors.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}})
	client.PrependReactor("get", "secrets", func(clientgo.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the vault is shut")
	})

	ctx := context.Background()
	_, err := client.CoreV1().Secrets("default").Get(ctx, "key", metav1.GetOptions{})
	fmt.Println(err)
	_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
	fmt.Println(err)
	for _, action := range client.Actions() {
		fmt.Println(action.GetVerb(), action.GetResource().Resource, action.GetNamespace(),
			action.(clientgo.GetAction).GetName())
	}
	// Output:
	// the vault is shut
	// <nil>
	// get secrets default key
	// get configmaps default a
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// describe returns an action in one line.
func describe(a clientgo.Action) string {
	resource := a.GetResource().Resource
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	line := a.GetVerb() + " " + resource
	if ns := a.GetNamespace(); ns != "" {
		line += " in " + ns
	}
	switch a := a.(type) {
	case clientgo.CreateActionImpl:
		if a.Name != "" {
			line += " " + a.Name
		}
		line += fmt.Sprintf(" %T", a.Object)
	case clientgo.UpdateActionImpl:
		line += fmt.Sprintf(" %T", a.Object)
	case clientgo.PatchActionImpl:
		line += " " + a.Name + " " + string(a.PatchType) + " " + string(a.Patch)
	case clientgo.GetActionImpl:
		line += " " + a.Name
	case clientgo.DeleteActionImpl:
		line += " " + a.Name
	case clientgo.ListActionImpl:
		line += " " + a.Kind.Kind + " " + a.ListRestrictions.Labels.String()
	case clientgo.WatchActionImpl:
		line += " " + a.WatchRestrictions.Fields.String()
	case clientgo.DeleteCollectionActionImpl:
		line += " " + a.ListRestrictions.Labels.String()
	}
	return line
}

func TestEveryRequestIsRecorded(t *testing.T) {
	ctx := context.Background()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}}
	tests := []struct {
		name string
		do   func(c *reactors.Clientset) error
		want string
	}{
		{"create", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Nodes().Create(ctx, node("new"), metav1.CreateOptions{})
			return err
		}, "create nodes *v1.Node"},
		{"update", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Nodes().Update(ctx, node("n"), metav1.UpdateOptions{})
			return err
		}, "update nodes *v1.Node"},
		{"update status", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Nodes().UpdateStatus(ctx, node("n"), metav1.UpdateOptions{})
			return err
		}, "update nodes/status *v1.Node"},
		{"patch status", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Nodes().Patch(ctx, "n", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{},
				"status")
			return err
		}, "patch nodes/status n application/merge-patch+json {}"},
		{"get", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
			return err
		}, "get pods in default p"},
		{"list", func(c *reactors.Clientset) error {
			_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
			return err
		}, "list pods in default Pod a=b"},
		{"watch", func(c *reactors.Clientset) error {
			w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n"})
			if err == nil {
				w.Stop()
			}
			return err
		}, "watch pods in default spec.nodeName=n"},
		{"delete", func(c *reactors.Clientset) error {
			return c.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{})
		}, "delete pods in default p"},
		{"deletecollection", func(c *reactors.Clientset) error {
			return c.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "a=b"})
		}, "delete-collection pods in default a=b"},
		{"bind", func(c *reactors.Clientset) error {
			return c.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
				Target:     corev1.ObjectReference{Name: "n"},
			}, metav1.CreateOptions{})
		}, "create pods/binding in default p *v1.Binding"},
		{"evict", func(c *reactors.Clientset) error {
			return c.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
		}, "create pods/eviction in default p *v1.Eviction"},
		{"scale", func(c *reactors.Clientset) error {
			_, err := c.AppsV1().StatefulSets("default").GetScale(ctx, "s", metav1.GetOptions{})
			return err
		}, "get statefulsets/scale in default s"},
		{"dynamic", func(c *reactors.Clientset) error {
			_, err := c.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, "n",
				metav1.GetOptions{})
			return err
		}, "get nodes n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := reactors.NewClientset(node("n"), pod("p"), set)
			if err := tt.do(c); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range c.Actions() {
				got = append(got, describe(a))
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			c.ClearActions()
			if n := len(c.Actions()); n != 0 {
				t.Errorf("%d actions after ClearActions", n)
			}
		})
	}
}

func TestReactorsAnswerBeforeTheServer(t *testing.T) {
	ctx := context.Background()
	c := reactors.NewClientset(node("n"))
	c.PrependReactor("list", "nodes", func(clientgo.Action) (bool, runtime.Object, error) {
		return true, &corev1.NodeList{
			ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			Items: []corev1.Node{
				*node("x"), {ObjectMeta: metav1.ObjectMeta{Name: "y", Labels: map[string]string{"a": "b"}}},
			},
		}, nil
	})
	c.PrependReactor("create", "nodes", func(clientgo.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), "m", errors.New("staged"))
	})
	c.PrependReactor("delete", "nodes", func(clientgo.Action) (bool, runtime.Object, error) { return true, nil, nil })
	seen := 0
	c.PrependReactor("*", "*", func(clientgo.Action) (bool, runtime.Object, error) {
		seen++
		return false, nil, nil
	})

	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "y" || list.ResourceVersion != "7" {
		t.Errorf("list: got %+v, %v, want y at 7", list, err)
	}
	if _, err := c.CoreV1().Nodes().Create(ctx, node("m"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("create: got %v, want a conflict", err)
	}
	if err := c.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); err != nil {
		t.Errorf("get: %v, but the deletion did not come to the server", err)
	}
	if seen != 4 {
		t.Errorf("the first reactor saw %d requests, want 4", seen)
	}
}

func TestChainWithoutTheLastReactorDoesNotAskTheServer(t *testing.T) {
	ctx := context.Background()
	c := reactors.NewClientset()
	c.ReactionChain = nil
	got, err := c.CoreV1().Nodes().Create(ctx, node("n"), metav1.CreateOptions{})
	if err != nil || got == nil || got.Name != "" {
		t.Errorf("got %+v, %v, want an empty node", got, err)
	}
	if _, ok := c.Server().Get("nodes", "", "n"); ok {
		t.Error("the node was created")
	}
	token, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "a", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil || token == nil || token.Status.Token != "" {
		t.Errorf("got %+v, %v, want an empty token", token, err)
	}
}

func TestWatchReactor(t *testing.T) {
	c := reactors.NewClientset()
	staged := watch.NewFake()
	c.PrependWatchReactor("nodes", clientgo.DefaultWatchReactor(staged, nil))
	w, err := c.CoreV1().Nodes().Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go staged.Add(node("n"))
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Node).Name != "n" {
		t.Errorf("got %+v", e)
	}
}

func TestActionsDoNotChangeLater(t *testing.T) {
	c := reactors.NewClientset()
	n := node("n")
	if _, err := c.CoreV1().Nodes().Create(context.Background(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Name = "changed"
	got := c.Actions()[0].(clientgo.CreateAction).GetObject().(*corev1.Node)
	if diff := cmp.Diff(node("n"), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
