// Package facts specifies the behaviour of a Kubernetes API server by several hundred facts:
// requests with their answers. Each fact was checked against a real kube-apiserver.
//
//	all, err := facts.All()
//	client := facts.HTTPClient("https://127.0.0.1:6443", transport, true)
//	for _, fact := range all {
//		fmt.Println(fact, facts.Check(ctx, client, fact))
//	}
//
// [Check] checks a fact through a [Client]: a typed client, an untyped client, or HTTP. The facts
// are in book/, one file for each topic:
//
//	# A stale update is a conflict.
//	create claims/a with claim as first
//	patch claims/a merge
//	    metadata: {labels: {n: "1"}}
//	update claims/a with first
//	→ 409 Conflict: Operation cannot be fulfilled on persistentvolumeclaims "a": …
//
// A comment is the name of the fact. Each other line is a request: verb, object, and options as
// key=value. "with" names the base of the body: a "let" of the file, or an earlier answer. "as"
// names the answer. The last answer is "it". The indented lines below a request are YAML: the body,
// or the changes to the base, where null deletes a field. Names and type fields are filled in. "in
// other" means another namespace, "in *" all of them. $ns is the fact's own, new namespace.
//
// An arrow introduces the expected answer: code, reason, message. The indented lines below must be
// in the body. Lists are compared element by element. $name captures a value at its first use, and
// must equal it later. "…" matches any text or value, null matches none, "≠" negates. The keys
// $warnings, $headers and $text are about the answer outside of the body. A request without an
// arrow must succeed. "differs →" is the answer of our server where it deviates on purpose.
//
//	watch claims resourceVersion=$rv
//	→ 200
//	    - ADDED: {metadata: {name: a}}
//	    - until BOOKMARK: {}
//	    - end
//
// An element of a watch's list matches the next event, or with "until" the next matching one.
// "events" continues with the same watch. A fact marked "only http" needs the wire format. A fact
// marked "alone" needs the server for itself.
//
// # What it does not do
//
// Facts have no concurrency and no timing. They cover the API as storage components use it, not all
// of it.
package facts
