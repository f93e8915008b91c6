/* Every model of the zoo at a size that the reference kernels run at once. */
#ifndef FS_TESTS_ZOO_TINY_H
#define FS_TESTS_ZOO_TINY_H

static const char *const zoo_tiny[] = {
    "gpt,layers=2,hidden=16,heads=2,vocab=11,seq=6",
    "mlp,in=8,hidden=16,layers=2,classes=5",
    "llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
    "llama,layers=2,hidden=16,heads=4,kv_heads=1,ffn=24,vocab=11,seq=8,"
    "experts=4,active=2,group=4",
    "moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
    "moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=1,every=1",
    "bert,layers=2,hidden=16,heads=2,vocab=11,seq=6",
    "t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
    "t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=4,"
    "experts=3",
    "vit,layers=2,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5",
    "resnet,depth=18,width=4,classes=5,size=32",
    "resnet,depth=50,width=2,classes=5,size=32",
    "vgg,depth=11,width=4,hidden=16,classes=5,size=32",
    "mobilenet,percent=5,classes=5,size=32",
    "efficientnet,percent=5,classes=5,size=32",
    "unet,depth=2,width=4,classes=5,size=8",
    "wide-deep,fields=3,dense=4,rows=20,embedding=4,hidden=16,layers=2",
    "dlrm,tables=10,rows=200,embedding=4,dense=3,bottom=8,top=16",
    "insightface,depth=18,width=4,embedding=8,classes=20,size=16",
    "lstm,layers=2,hidden=16,embedding=8,vocab=11,seq=6",
    "gru,layers=2,hidden=16,embedding=8,vocab=11,seq=6",
};

#endif
