package sim
import ("testing";"os";"strconv";"strings";"time")
func TestTry(t *testing.T) {
  a,_ := strconv.ParseUint(os.Getenv("A"),10,64); b,_ := strconv.ParseUint(os.Getenv("B"),10,64)
  var faults []string
  if f := os.Getenv("F"); f != "" { faults = strings.Split(f, ",") }
  r,_ := strconv.Atoi(os.Getenv("R"))
  var sum Coverage
  for s := a; s <= b; s++ {
    begin := time.Now()
    o := Options{Seed: s, Replicas: r, Faults: faults}
    if os.Getenv("T") != "" { o.Trace = os.Stdout }
    res, err := Run(o)
    if err != nil { t.Fatal(err) }
    t.Logf("seed %d: %s steps %d time %s hash %x wall %v", s, res.Plan, res.Steps, clock(res.Time), res.Hash, time.Since(begin))
    sum.Add(&res.Coverage)
    if res.Failure != nil { for _, e := range res.Events { t.Log(e) }; t.Fatalf("seed %d: %v", s, res.Failure) }
    if os.Getenv("TWICE") != "" { again, _ := Run(o); if again.Hash != res.Hash { t.Fatalf("seed %d: hash %x then %x", s, res.Hash, again.Hash) } }
  }
  sum.Print(os.Stdout)
}
