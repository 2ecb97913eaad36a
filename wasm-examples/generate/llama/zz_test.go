package llama
import ("testing";"bytes";"idlemesh/gpu";"idlemesh/gpu/cpu";"idlemesh/gpu/kernel")
func BenchmarkZZ(b *testing.B){
 c:=Config{Dim:288,Hidden:768,Layers:6,Heads:6,KVHeads:6,Vocab:32000,Context:256}
 w:=weights(c)
 for _,ver:=range []int{1,2}{ f:=file(c,ver,32,w)
 b.Run([]string{"","f32","q8"}[ver],func(b *testing.B){
 s:=gpu.New(cpu.New(0),0).Session(0,kernel.Reference{FLOPS:1e12,Bandwidth:1e12}); defer s.Close()
 m,err:=Load(s,bytes.NewReader(f),int64(len(f)),0); if err!=nil{b.Fatal(err)}
 n:=0
 b.ResetTimer()
 for b.Loop(){ m.pos=0; next:=int32(1); for range 200 { if next,err=m.Next([]int32{next},Choice{});err!=nil{b.Fatal(err)};n++}}
 b.ReportMetric(float64(n)/b.Elapsed().Seconds(),"tokens/s")
 })}
}
