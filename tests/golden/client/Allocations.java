import java.util.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;
public class Allocations {
  static String q(String s){return "\""+s+"\"";}
  public static void main(String[] a) throws Exception {
    Random r=new Random(20260101);
    AllocateMachineRoomNearby.MachineRoomResolver res=new AllocateMachineRoomNearby.MachineRoomResolver(){
      public String brokerDeployIn(MessageQueue m){return m.getBrokerName().split("@")[0];}
      public String consumerDeployIn(String c){return c.split("-")[0];}
    };
    StringBuilder out=new StringBuilder("[\n"); boolean first=true;
    for(int n=0;n<160;n++){
      int rooms=1+r.nextInt(3), brokers=1+r.nextInt(4), per=1+r.nextInt(9), members=1+r.nextInt(6);
      String topic="T"+r.nextInt(3);
      List<MessageQueue> mqs=new ArrayList<>();
      for(int b=0;b<brokers;b++) for(int i=0;i<per;i++) mqs.add(new MessageQueue(topic,"room"+(b%rooms)+"@b"+b,i));
      Collections.sort(mqs);
      List<String> cids=new ArrayList<>();
      for(int m=0;m<members;m++) cids.add("room"+r.nextInt(rooms)+"-"+"10.0.0."+r.nextInt(9)+"@"+m);
      Collections.sort(cids);
      Map<String,AllocateMessageQueueStrategy> ss=new LinkedHashMap<>();
      ss.put("AVG",new AllocateMessageQueueAveragely());
      ss.put("AVG_BY_CIRCLE",new AllocateMessageQueueAveragelyByCircle());
      AllocateMessageQueueByConfig cfg=new AllocateMessageQueueByConfig(); cfg.setMessageQueueList(mqs.subList(0,Math.min(2,mqs.size()))); ss.put("CONFIG",cfg);
      AllocateMessageQueueByMachineRoom mr=new AllocateMessageQueueByMachineRoom(); mr.setConsumeridcs(new HashSet<>(Arrays.asList("room0","room2"))); ss.put("MACHINE_ROOM",mr);
      ss.put("MACHINE_ROOM_NEARBY-AVG",new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(),res));
      ss.put("CONSISTENT_HASH",new AllocateMessageQueueConsistentHash());
      for(Map.Entry<String,AllocateMessageQueueStrategy> e:ss.entrySet()){
        if(!e.getValue().getName().equals(e.getKey())) throw new Exception(e.getValue().getName());
        if(!first) out.append(",\n"); first=false;
        out.append("{\"strategy\":").append(q(e.getKey())).append(",\"topic\":").append(q(topic)).append(",\"queues\":[");
        for(int i=0;i<mqs.size();i++){ if(i>0)out.append(","); out.append("[").append(q(mqs.get(i).getBrokerName())).append(",").append(mqs.get(i).getQueueId()).append("]"); }
        out.append("],\"ids\":[");
        for(int i=0;i<cids.size();i++){ if(i>0)out.append(","); out.append(q(cids.get(i))); }
        out.append("],\"result\":[");
        for(int i=0;i<cids.size();i++){ if(i>0)out.append(",");
          List<Integer> idx=new ArrayList<>();
          for(MessageQueue m: e.getValue().allocate("g",cids.get(i),mqs,cids)) idx.add(mqs.indexOf(m));
          out.append(idx.toString().replace(" ","")); }
        out.append("]}");
      }
    }
    out.append("\n]\n");
    System.out.print(out);
  }
}
