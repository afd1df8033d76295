components: none
definitions: widgets.yaml
ends: differ
user alice
  apply {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"size":"1Gi"}}
  patch widget web spec.size=2Gi spec.replicas=3
user bob
  wait widget web exists
schedule
  1 hold: alice
  6 hold: bob
violates: user

   1  >> alice is held, before its create of widget default/web, until step 3
   3  alice creates widget default/web (rv 8)
   5  bob reads widget default/web (rv 8)
   6  >> bob is held, before its update of widget default/web, until step 7
   6  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi (rv 9)
   7  bob gets a conflict for its update of widget default/web
      (it had read it in step 5, before step 6, where alice changed it)
violation: user: user bob: Operation cannot be fulfilled on widgets.example.com "web": the object has been modified; please apply your changes to the latest version and try again

conflict-of-a-script
  alice
  │        bob
  │        │        API server
  │        │        │          alice is held, before its create of widget default/web, until step 3
  o────────────────>8       3  alice creates widget default/web
  │        │        │          bob is held, before its update of widget default/web, until step 7
  o────────────────>9       6  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi
  │        o╌╌╌╌╌╌╌ x       7  bob gets a conflict for its update of widget default/web
  │        │        │            bob decided in step 5, before step 6
violation: user: user bob: Operation cannot be fulfilled on widgets.example.com "web": the object has been modified; please apply your changes to the latest version and try again
o acts; left: resourceVersions, right: steps; x refused

conflict-of-a-script
Widgets
  default/web                   |exists─────────────────────────────────────────────────────────────────────────────────────────────
Retries
  bob update widget default/web ··················································x·················································
violation: user: user bob: Operation cannot be fulfilled on widgets.example.com "web": the object has been modified; please apply your changes to the latest version and try again
