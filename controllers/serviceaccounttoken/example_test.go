package serviceaccounttoken_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/serviceaccounttoken"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A secret is created, and gets a token with which a program is its account.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now, TokenKey: []byte("key")})
	process := host.Process("serviceaccounttoken")
	serviceaccounttoken.New(serviceaccounttoken.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process), Token: server.LegacyToken,
	})

	secrets := server.Client(host.ExternalCaller()).CoreV1().Secrets("default")
	_, err := secrets.Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ci", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	secret, err := secrets.Get(context.Background(), "ci", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	user, _, err := server.AuthenticateToken(string(secret.Data[corev1.ServiceAccountTokenKey]))
	fmt.Println(user.Username, err)
	// Output: system:serviceaccount:default:default <nil>
}
