package facts_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/facts"
	"github.com/volsim/volsim/sim"
)

// Of two facts, the server fulfils the first only. facts.All returns those of the book.
func ExampleCheck() {
	all, err := facts.Parse("maps.txt", `
# What is there cannot be created again.
create configmaps/a
create configmaps/a
→ 409 AlreadyExists: configmaps "a" already exists

# What is not there can be deleted.
delete configmaps/a
→ 200
`)
	if err != nil {
		log.Fatal(err)
	}
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	client := facts.UntypedClient(server.Client(sim.DirectCaller())) // facts.HTTPClient reaches any server
	for _, f := range all {
		fmt.Println(f, facts.Check(context.Background(), client, f))
	}
	// Output:
	// maps: What is there cannot be created again. <nil>
	// maps: What is not there can be deleted. maps.txt:8: delete configmaps/a: got 404 NotFound: configmaps "a" not found; want 200 :
}
